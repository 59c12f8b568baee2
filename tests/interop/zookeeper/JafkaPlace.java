import io.jafka.Jafka;
import io.jafka.consumer.Consumer;
import io.jafka.consumer.ConsumerConfig;
import io.jafka.consumer.ConsumerConnector;
import io.jafka.producer.Producer;
import io.jafka.producer.ProducerConfig;
import io.jafka.producer.StringProducerData;
import io.jafka.producer.serializer.StringDecoder;
import io.jafka.producer.serializer.StringEncoder;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/** A broker of Jafka with a topic, or a consumer; ends at the end of its input. */
public class JafkaPlace {
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("broker")) {
            serve(arguments[1], arguments[2], arguments[3], arguments[4]);
        } else {
            consume(arguments[1], arguments[2], arguments[3]);
        }
        System.exit(0);
    }

    private static void serve(String zookeeper, String port, String directory, String topic)
            throws Exception {
        Properties settings = new Properties();
        settings.put("brokerid", "1");
        settings.put("hostname", "127.0.0.1");
        settings.put("port", port);
        settings.put("log.dir", directory);
        settings.put("num.partitions", "3");
        settings.put("enable.zookeeper", "true");
        settings.put("zk.connect", zookeeper);
        Jafka broker = new Jafka();
        broker.start(settings, null, null);
        Properties sending = new Properties();
        sending.put("broker.list", "1:127.0.0.1:" + port);
        sending.put("serializer.class", StringEncoder.class.getName());
        Producer<String, String> producer = new Producer<>(new ProducerConfig(sending));
        for (int number = 0; number < 20; number++) {
            producer.send(new StringProducerData(topic).add("value-" + number));
        }
        producer.close();
        System.out.println("started");
        end();
        broker.close();
    }

    private static void consume(String zookeeper, String group, String topic) throws Exception {
        Properties settings = new Properties();
        settings.put("zk.connect", zookeeper);
        settings.put("groupid", group);
        settings.put("rebalance.backoff.ms", "1000");
        settings.put("rebalance.retries.max", "20");
        ConsumerConnector connector = Consumer.create(new ConsumerConfig(settings));
        Map<String, Integer> wanted = new HashMap<>();
        wanted.put(topic, 1);
        connector.createMessageStreams(wanted, new StringDecoder()).get(topic).forEach(
                stream -> {
                    Thread reader = new Thread(() -> {
                        for (String value : stream) {
                            System.out.println(value);
                        }
                    });
                    reader.setDaemon(true);
                    reader.start();
                });
        System.out.println("started");
        end();
        connector.close();
    }

    private static void end() throws Exception {
        while (System.in.read() >= 0) {
            // The parent closes the input.
        }
    }
}
