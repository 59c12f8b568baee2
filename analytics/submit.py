"""The program for `spark-submit`, on clusters that start jobs themselves (composition).

    python -m analytics.shipping modules.zip
    spark-submit --master ... --py-files modules.zip [--files _columns.*.so] \\
        analytics/submit.py compaction hdfs:///logs/broker-1 --against hdfs:///logs/raw --out OUT

The same audits, rules and exit codes as `ottla audit`; the verdict is printed as one line of JSON.
"""

import argparse
import json
import sys
from pathlib import Path

EXIT_FAILED = 1
EXIT_USAGE = 2


def main(arguments: list[str]) -> int:
    """Run one audit on the master of spark-submit; return the exit code."""
    from analytics.errors import AuditError, AuditUsageError
    from analytics.plan import Audit
    from analytics.result_files import write_result
    from analytics.run import Request, run_audit
    from logcheck.rule import parse_rules

    parser = argparse.ArgumentParser(prog="submit.py", description="Audit logs on this cluster.")
    parser.add_argument("name", choices=list(Audit))
    parser.add_argument("directories", nargs="+", metavar="DIR")
    parser.add_argument("--against", metavar="DIR")
    parser.add_argument("--out", metavar="DIR", type=Path)
    parser.add_argument("--rule", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--strict", action="store_true")
    options = parser.parse_args(arguments)
    try:
        rules = parse_rules(options.rule, is_strict=options.strict)
    except ValueError as error:
        sys.stderr.write(f"submit.py: {error}\n")
        return EXIT_USAGE
    request = Request(
        audit=Audit(options.name),
        directories=options.directories,
        against=options.against,
        master="",
        rules=rules,
    )
    try:
        result = run_audit(request)
    except AuditError as error:
        sys.stderr.write(f"submit.py: {error}\n")
        return EXIT_USAGE if isinstance(error, AuditUsageError) else EXIT_FAILED
    # Printed first: the disk of the files may be full.
    sys.stdout.write(json.dumps(result.verdict.to_json()) + "\n")
    sys.stdout.flush()
    try:
        if options.out is not None:
            write_result(result, options.out)
    except AuditError as error:
        sys.stderr.write(f"submit.py: {error}\n")
        return EXIT_FAILED
    return result.verdict.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
