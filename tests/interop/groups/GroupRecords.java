import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.generated.GroupMetadataKey;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.OffsetCommitKey;
import org.apache.kafka.coordinator.group.generated.OffsetCommitValue;

/** Prints records of __consumer_offsets as Kafka writes them, a name and hexadecimals per line. */
public class GroupRecords {
    private static final List<String> GROUPS =
        List.of("", "my-group", "polygenelubricants", "żółć", "\uD83D\uDE04", "console-consumer-1");

    public static void main(String[] arguments) {
        for (String group : GROUPS)
            System.out.println("partition " + group + "=" + Utils.abs(group.hashCode()) % 50);
        for (short version = 0; version <= 1; version++)
            print("offset key", version, new OffsetCommitKey().setGroup("my-group").setTopic("orders").setPartition(7));
        print("group key", (short) 2, new GroupMetadataKey().setGroup("my-group"));
        for (short version = 0; version <= 4; version++) {
            OffsetCommitValue offset = new OffsetCommitValue()
                .setOffset(123456789012L).setMetadata("żółć").setCommitTimestamp(1700000000000L);
            if (version >= 3) offset.setLeaderEpoch(5);
            if (version == 1) offset.setExpireTimestamp(1700000009999L);
            print("offset value", version, offset);
            print("group value", version, group(version, true));
        }
        print("empty group value", (short) 3, group((short) 3, false));
    }

    private static GroupMetadataValue group(short version, boolean hasMembers) {
        GroupMetadataValue value = new GroupMetadataValue()
            .setProtocolType("consumer").setGeneration(3)
            .setProtocol(hasMembers ? "range" : null).setLeader(hasMembers ? "member-1" : null);
        if (version >= 2) value.setCurrentStateTimestamp(1700000000000L);
        if (!hasMembers) return value.setMembers(List.of());
        return value.setMembers(List.of(member(version, "member-1", "one"), member(version, "member-2", null)));
    }

    private static GroupMetadataValue.MemberMetadata member(short version, String id, String instance) {
        GroupMetadataValue.MemberMetadata member = new GroupMetadataValue.MemberMetadata()
            .setMemberId(id).setClientId("client").setClientHost("/127.0.0.1").setSessionTimeout(45000)
            .setSubscription(new byte[] {0, 1, 2}).setAssignment(new byte[] {3, 4});
        if (version >= 1) member.setRebalanceTimeout(300000);
        if (version >= 3) member.setGroupInstanceId(instance);
        return member;
    }

    private static void print(String name, short version, org.apache.kafka.common.protocol.ApiMessage message) {
        byte[] bytes = MessageUtil.toVersionPrefixedBytes(version, message);
        System.out.println(name + " v" + version + "=" + HexFormat.of().formatHex(bytes));
    }
}
