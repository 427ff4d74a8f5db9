// RocketMQ's Java client as a stranger would use it; run.sh says which version, and against whom. The verbs are those of ali_ons.js, and:
//
//   batch NAMESRV TOPIC FIRST COUNT     sends them ten at a time        one_way NAMESRV TOPIC FIRST COUNT
//   lite NAMESRV TOPIC COUNT            reads the topic from its begin with assigned queues, as consume prints
//   query NAMESRV TOPIC FIRST COUNT     finds each message by its key, and by its id
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

public class Interop {
  static final String[] TAGS = {"TagA", "TagB", "Ünïcode"};
  static String tagOf(int i) { return TAGS[i % TAGS.length]; }
  static String keyOf(int i) { return "key-" + i; }
  // As in ali_ons.js: one byte to 40 KB; those above 4 KiB are compressed by the client.
  static byte[] bodyOf(int i) {
    switch (i % 4) {
      case 0: return ("message " + i).getBytes(StandardCharsets.UTF_8);
      case 1: return ("żółw 消息 €😀 " + i).getBytes(StandardCharsets.UTF_8);
      case 2: {
        byte[] out = new byte[1 + (i * 37) % 300];
        for (int j = 0; j < out.length; j++) out[j] = (byte) (i * 31 + j * 7);
        return out;
      }
      default: {
        byte[] out = new byte[i % 10 == 3 ? 40000 : 5000];
        for (int j = 0; j < out.length; j++) out[j] = (byte) (j % 100 < 10 ? i + j : 65);
        return out;
      }
    }
  }
  static Message messageOf(String topic, int i) {
    Message message = new Message(topic, tagOf(i), keyOf(i) + " all", bodyOf(i));
    message.putUserProperty("number", "" + i);
    return message;
  }
  static boolean isRight(MessageExt message, String topic) {
    int i = Integer.parseInt(message.getUserProperty("number"));
    return message.getTopic().equals(topic) && tagOf(i).equals(message.getTags()) && (keyOf(i) + " all").equals(message.getKeys()) && Arrays.equals(message.getBody(), bodyOf(i));
  }
  static synchronized void show(MessageExt message, String topic) {
    System.out.println(keyOf(Integer.parseInt(message.getUserProperty("number"))) + (isRight(message, topic) ? " right " : " wrong ") + message.getQueueId() + " " + message.getQueueOffset());
  }

  static DefaultMQProducer producer(String nameSrv) throws Exception {
    DefaultMQProducer producer = new DefaultMQProducer("interop-producers");
    producer.setNamesrvAddr(nameSrv);
    producer.start();
    return producer;
  }
  static SendResult sure(SendResult result) {
    if (result.getSendStatus() != SendStatus.SEND_OK) throw new IllegalStateException(result.toString());
    return result;
  }

  static void produce(String nameSrv, String topic, int first, int count) throws Exception {
    DefaultMQProducer producer = producer(nameSrv);
    ExecutorService workers = Executors.newFixedThreadPool(20);
    List<Future<?>> sends = new ArrayList<>();
    for (int i = first; i < first + count; i++) {
      Message message = messageOf(topic, i);
      sends.add(workers.submit(() -> sure(producer.send(message))));
    }
    for (Future<?> send : sends) send.get();
    workers.shutdown();
    producer.shutdown();
  }
  static void batch(String nameSrv, String topic, int first, int count) throws Exception {
    DefaultMQProducer producer = producer(nameSrv);
    for (int i = first; i < first + count; i += 10) {
      List<Message> batch = new ArrayList<>();
      for (int j = i; j < Math.min(i + 10, first + count); j++) batch.add(messageOf(topic, j));
      sure(producer.send(batch));
    }
    producer.shutdown();
  }
  static void oneWay(String nameSrv, String topic, int first, int count) throws Exception {
    DefaultMQProducer producer = producer(nameSrv);
    for (int i = first; i < first + count; i++) producer.sendOneway(messageOf(topic, i));
    Thread.sleep(1000);
    producer.shutdown();
  }
  static void query(String nameSrv, String topic, int first, int count) throws Exception {
    DefaultMQProducer producer = producer(nameSrv);
    producer.fetchPublishMessageQueues(topic);   // the client asks for messages only where it knows the route
    for (int i = first; i < first + count; i++) {
      SendResult sent = sure(producer.send(messageOf(topic, i)));
      QueryResult found = null;
      for (int tries = 0; found == null; tries++) {
        try {
          found = producer.queryMessage(topic, keyOf(i), 32, 0, System.currentTimeMillis() + 60_000);
        } catch (Exception e) {
          if (tries == 50) throw e;
          Thread.sleep(100);
        }
      }
      if (found.getMessageList().size() != 1 || !isRight(found.getMessageList().get(0), topic)) throw new IllegalStateException("by key " + i + ": " + found);
      if (!isRight(producer.viewMessage(topic, sent.getOffsetMsgId()), topic)) throw new IllegalStateException("by id " + i);
      if (!isRight(producer.viewMessage(topic, sent.getMsgId()), topic)) throw new IllegalStateException("by unique key " + i);
    }
    producer.shutdown();
  }

  static void consume(String nameSrv, String topic, String group, int seconds, int count, String tags) throws Exception {
    DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
    consumer.setNamesrvAddr(nameSrv);
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
    consumer.subscribe(topic, tags);
    AtomicInteger seen = new AtomicInteger();
    CountDownLatch over = new CountDownLatch(1);
    consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
      for (MessageExt message : messages) {
        show(message, topic);
        if (seen.incrementAndGet() == count) over.countDown();
      }
      return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    });
    consumer.start();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      consumer.shutdown();
      System.out.println("goodbye " + seen.get());
      System.out.flush();
    }));
    int share = -1;
    for (int i = 0; i < seconds * 10 && !over.await(100, TimeUnit.MILLISECONDS); i++) {
      int queues = 0;
      for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) if (queue.getTopic().equals(topic)) queues++;
      if (queues != share) System.out.println("queues " + (share = queues));
    }
    Thread.sleep(300);
  }
  static void lite(String nameSrv, String topic, int count) throws Exception {
    DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("lite-group");
    consumer.setNamesrvAddr(nameSrv);
    consumer.setAutoCommit(false);
    consumer.start();
    List<MessageQueue> queues = new ArrayList<>(consumer.fetchMessageQueues(topic));
    consumer.assign(queues);
    for (MessageQueue queue : queues) consumer.seekToBegin(queue);
    for (int seen = 0, rounds = 0; seen < count && rounds < 60; rounds++)
      for (MessageExt message : consumer.poll(1000)) {
        show(message, topic);
        seen++;
      }
    consumer.shutdown();
  }

  public static void main(String[] a) throws Exception {
    switch (a[0]) {
      case "produce": produce(a[1], a[2], Integer.parseInt(a[3]), Integer.parseInt(a[4])); break;
      case "batch": batch(a[1], a[2], Integer.parseInt(a[3]), Integer.parseInt(a[4])); break;
      case "one_way": oneWay(a[1], a[2], Integer.parseInt(a[3]), Integer.parseInt(a[4])); break;
      case "query": query(a[1], a[2], Integer.parseInt(a[3]), Integer.parseInt(a[4])); break;
      case "lite": lite(a[1], a[2], Integer.parseInt(a[3])); break;
      case "consume": consume(a[1], a[2], a[3], Integer.parseInt(a[4]), Integer.parseInt(a[5]), a.length > 6 ? a[6] : "*"); break;
      default: throw new IllegalArgumentException(a[0]);
    }
    System.exit(0);
  }
}
