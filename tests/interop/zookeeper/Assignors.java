import java.io.BufferedReader;
import java.io.InputStreamReader;
import kafka.common.TopicAndPartition;
import kafka.consumer.AssignmentContext;
import kafka.consumer.ConsumerThreadId;
import kafka.consumer.PartitionAssignor;
import kafka.consumer.PartitionAssignor$;
import kafka.utils.ZkUtils;
import scala.Tuple2;

/**
 * For each line `strategy group consumer` of the input: prints `topic partition thread` for each of
 * the consumer's partitions by Kafka's own assignor, then `end`.
 */
public class Assignors {
    public static void main(String[] arguments) throws Exception {
        ZkUtils nodes = ZkUtils.apply(arguments[0], 10000, 10000, false);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = input.readLine()) != null) {
            String[] words = line.split(" ");
            try {
                print(nodes, words[0], words[1], words[2]);
            } catch (Exception error) {
                System.out.println("failed " + error);
            }
            System.out.println("end");
        }
        System.exit(0);
    }

    private static void print(ZkUtils nodes, String strategy, String group, String consumer) {
        PartitionAssignor assignor = PartitionAssignor$.MODULE$.createInstance(strategy);
        AssignmentContext context = new AssignmentContext(group, consumer, true, nodes);
        Object found = assignor.assign(context).get(consumer);
        scala.collection.Map<?, ?> owned = (scala.collection.Map<?, ?>) found;
        if (owned == null) {
            return;
        }
        scala.collection.Iterator<?> each = owned.iterator();
        while (each.hasNext()) {
            Tuple2<?, ?> pair = (Tuple2<?, ?>) each.next();
            Object partition = pair._1();
            System.out.println(partition + " " + pair._2());
        }
    }
}
