"""`ottla consume`: prints the records of topics (composition)."""

from contextlib import suppress
from typing import Annotated

import typer

from ottla.cli.command_config import cluster_access
from ottla.cli.failure import guarded, run_client, usage_error
from ottla.cli.options import (
    Bootstrap,
    CommandConfig,
    Coordinator,
    GroupLayout,
    JsonLines,
    LayoutName,
)
from ottla.cli.output_record import DEFAULT_SEPARATOR, OutputFormat
from ottla.cli.terminal import is_terminal
from ottla.cli.transfer import Transfer


@guarded
def consume(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPIC", help="Names of topics.")
    ] = None,
    regex: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Read all topics whose whole name matches."),
    ] = None,
    start: Annotated[
        str,
        typer.Option("--from", metavar="WHERE", help="beginning, end, an offset or a time."),
    ] = "beginning",
    partition: Annotated[
        list[int] | None,
        typer.Option(min=0, help="Read only this partition of each topic; repeatable."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="NAME",
            help="Join this consumer group, and commit the offsets of printed records.",
        ),
    ] = None,
    max_records: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number of records.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for new records, or stop at the end.")
    ] = True,
    output_format: Annotated[
        OutputFormat, typer.Option("--format", "-f", help="Output format of each record.")
    ] = OutputFormat.VALUE,
    template: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="For --format template, '{offset}: {value}'; for --format kcat, '%o: %s\\n'.",
        ),
    ] = None,
    key_separator: Annotated[
        str, typer.Option(metavar="TEXT", help="Separator of --format key-value.")
    ] = DEFAULT_SEPARATOR,
    bootstrap: Bootstrap = None,
    command_config: CommandConfig = None,
    coordinator: Coordinator = None,
    layout: GroupLayout = LayoutName.KAFKA,
    json: JsonLines = False,
) -> None:
    """Print the records of topics.

    With --coordinator, the command is a member of a group of Kafka's old consumers, or of Jafka's.

    With --group, reading continues at the committed offsets; --from (beginning or end) applies to
    partitions without one, and --regex also reads topics that are created later. Times are ISO
    8601, in UTC unless they name a zone. Ctrl-C or SIGTERM stops the command. If a topic is
    deleted, the command says so and waits until it is created again; with --no-follow it fails. At
    the end it prints the number and rate of records to standard error. Keys and values are printed
    byte for byte to a pipe or a file; on a terminal, their control characters are escaped.

    \b
    Examples:
      ottla consume greetings
      ottla consume greetings --group readers
      ottla consume greetings --group readers --coordinator 127.0.0.1:2181
      ottla consume orders --from 2026-01-31T12:00:00Z --no-follow --format json
      ottla consume orders --format template --template '{partition}/{offset} {key} {headers}'
      ottla consume --regex 'orders-.*' --format kcat --template '%t/%p %k: %s %h\\n'
    """
    from ottla.cli.consume_records import ConsumeOptions, consume_records
    from ottla.cli.input_record import InputError
    from ottla.cli.output_record import record_writer
    from ottla.cli.start_point import Beginning, End, parse_start_point

    try:
        chosen = OutputFormat.JSON if json else output_format
        write = record_writer(
            chosen,
            separator=key_separator,
            template=template,
            is_for_terminal=is_terminal(),
        )
        start_point = parse_start_point(start)
    except InputError as error:
        usage_error(f"--from: {error}.")
    except ValueError as error:
        usage_error(f"{error}.")
    if bool(topics) == (regex is not None):
        usage_error("name topics, or give --regex PATTERN.")
    if group is not None and partition:
        usage_error("--partition cannot be used with --group: the group assigns the partitions.")
    if group is not None and not isinstance(start_point, Beginning | End):
        usage_error(
            "--from must be beginning or end with --group; see `ottla groups reset-offsets`."
        )
    if coordinator is not None:
        from ottla.cli.consume_old import OldConsumeOptions, consume_old
        from ottla.cli.old_groups import groups_access

        if group is None:
            usage_error("--coordinator is for members of a group: name it with --group.")
        if not follow:
            usage_error("--no-follow cannot be used with --coordinator: the group owns the ends.")
        old = OldConsumeOptions(
            access=groups_access(coordinator, layout, bootstrap, command_config),
            topics=topics or [],
            regex=regex,
            group=group,
            reset="largest" if isinstance(start_point, End) else "smallest",
            max_records=max_records,
        )
        # Ctrl-C, SIGTERM and SIGHUP are the normal ends of a consumer that follows.
        with Transfer("received") as received, suppress(KeyboardInterrupt):
            run_client(consume_old(old, write, received))
        typer.echo(received.to_line(), err=True)
        return
    options = ConsumeOptions(
        access=cluster_access(bootstrap, command_config),
        topics=topics or [],
        regex=regex,
        partitions=partition,
        start=start_point,
        group=group,
        max_records=max_records,
        is_following=follow,
    )
    with Transfer("received") as transfer:
        try:
            run_client(consume_records(options, write, transfer))
        except KeyboardInterrupt:
            # Ctrl-C, SIGTERM and SIGHUP are the normal ends of a consumer that follows.
            if not follow:
                raise
    typer.echo(transfer.to_line(), err=True)
