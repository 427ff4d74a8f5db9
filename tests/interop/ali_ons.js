'use strict';
// RocketMQ's Node client as a stranger would use it; run.sh says against whom.
//
//   node ali_ons.js produce NAMESRV TOPIC FIRST COUNT              sends messages FIRST to FIRST + COUNT - 1, 50 at a time
//   node ali_ons.js consume NAMESRV TOPIC GROUP SECONDS COUNT [TAGS]   until COUNT came, SIGTERM, or the time is over; then it says goodbye
//
// consume prints "queues N" when its share is another, and one line for each message: its key, whether all of it is right, queue and offset.
// Status 0 done, 1 something is wrong.
const TAGS = [ 'TagA', 'TagB', 'Ünïcode' ];
const tagOf = i => TAGS[i % TAGS.length];
const keyOf = i => `key-${i}`;

// One byte to 40 KB: text, UTF-8, and every byte there is; those above 4 KiB are compressed by the client.
function bodyOf(i) {
  switch (i % 4) {
    case 0: return Buffer.from(`message ${i}`);
    case 1: return Buffer.from(`żółw 消息 €😀 ${i}`);
    case 2: return Buffer.from(Array.from({ length: 1 + (i * 37) % 300 }, (_, j) => (i * 31 + j * 7) & 255));
    default: return Buffer.from(Array.from({ length: i % 10 === 3 ? 40000 : 5000 }, (_, j) => (j % 100 < 10 ? i + j : 65) & 255));
  }
}

const logger = { debug() {}, info() {}, warn() {}, error: (...what) => console.error(...what) };
const options = nameSrv => ({ nameSrv, httpclient: { request() { throw new Error('no HTTP here'); } }, logger, clientIP: '127.0.0.1' });

async function produce(nameSrv, topic, first, count) {
  const { Producer, Message } = require('ali-ons');
  const producer = new Producer({ ...options(nameSrv), producerGroup: 'interop-producers' });
  await producer.ready();
  const end = first + count;
  let next = first;
  const worker = async () => {
    while (next < end) {
      const i = next++;
      const message = new Message(topic, tagOf(i), bodyOf(i));
      message.keys = [ keyOf(i), 'all' ];
      message.properties.number = `${i}`;
      const result = await producer.send(message);
      if (result.sendStatus !== 'SEND_OK' || !/^[0-9A-F]{32}$/.test(result.msgId)) throw new Error(`message ${i}: ${JSON.stringify(result)}`);
    }
  };
  await Promise.all(Array.from({ length: 50 }, worker));
  await producer.close();
  console.log(`sent ${count}`);
}

async function consume(nameSrv, topic, group, seconds, count, tags) {
  const { Consumer } = require('ali-ons');
  const consumer = new Consumer({ ...options(nameSrv), consumerGroup: group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', rebalanceInterval: 1000, pullBatchSize: 16 });
  consumer.on('error', err => console.error(`error: ${err.message}`));
  let seen = 0, over;
  const isOver = new Promise(resolve => { over = resolve; });
  consumer.subscribe(topic, tags || '*', async message => {
    const i = Number(message.properties.number);
    const isRight = message.tags === tagOf(i) && message.keys === `${keyOf(i)} all` && Buffer.compare(message.body, bodyOf(i)) === 0 && message.topic === topic;
    console.log(`${keyOf(i)} ${isRight ? 'right' : 'wrong'} ${message.queueId} ${message.queueOffset}`);
    if (++seen === count) over();
  });
  let share = -1;
  const watch = setInterval(() => {
    const queues = [ ...consumer.processQueueTable.values() ].filter(v => v.messageQueue.topic === topic).length;
    if (queues !== share) console.log(`queues ${share = queues}`);
  }, 100);
  process.on('SIGTERM', over);
  const clock = setTimeout(over, seconds * 1000);
  await isOver;
  await new Promise(resolve => setTimeout(resolve, 300));   // the client takes note of the last batch behind its handler
  clearInterval(watch);
  clearTimeout(clock);
  await consumer.close();
  console.log(`goodbye ${seen}`);
}

const [ , , verb, ...args ] = process.argv;
const run = {
  produce: () => produce(args[0], args[1], Number(args[2]), Number(args[3])),
  consume: () => consume(args[0], args[1], args[2], Number(args[3]), Number(args[4]), args[5]),
}[verb];
run().then(() => process.exit(), err => { console.error(err); process.exit(1); });
