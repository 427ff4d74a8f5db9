@0xc4d1f0a96e3b7712;
# The native protocol of Fulmar, version 1.
#
# A client first sends the 8 bytes "FULMAR" + version (u16, big-endian). Then frames both ways:
#
#   u32 frame bytes    little-endian: all bytes of the frame that follow this word
#   u32 header words   little-endian: 8-byte words of the header, at most 8192 (64 KiB)
#   header             one Cap'n Proto segment, no segment table: a Request (client to server) or a Response (server to client)
#   attachment         raw bytes, the rest of the frame: bodies, packed batches, stored records
#
# frame bytes = 4 + 8 * header words + attachment bytes.
#
# A topic table, for lists that may outgrow a header, is an attachment of entries, big-endian: u16 name bytes, name, i32 read queues,
# i32 write queues, u32 permissions.
#
# So are the other tables, their texts u16 bytes and the bytes:
#   members   id; absent: topic, u32 count, u32 index of a member...
#   groups    name, u8 model (0 clustering, 1 broadcasting), i32 members, u8 is configured
#   group     members: id, address, version, u8 model, u8 from (0 first, 1 last, 2 timestamp), u16 count, (topic, expression)...
#             queues: topic, i32 queue, i64 committed (-1: nothing), i64 min, i64 max
#   offsets   i32 queue, i64 was (-1: nothing), i64 is
#   cluster   cluster, name, address, version, i64 id, i64 silent for ms, i32 topics, u8 is writable
#
# Numbers of fields and of union members are for ever: new ones are added at the end, none is reused.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("fulmar::native");

struct Request {
  opaque @0 :UInt32;        # the client's number for this request; the response repeats it
  oneWay @1 :Bool;          # no response, whatever happens
  union {
    hello @2 :Hello;
    send @3 :Send;                       # attachment: the body
    sendBatch @4 :SendBatch;             # attachment: RocketMQ's packed client batch
    pull @5 :Pull;
    commitOffset @6 :CommitOffset;
    queryOffset @7 :QueryOffset;
    queryQueue @8 :QueryQueue;
    queryRoute @9 :Text;                 # topic
    createTopic @10 :TopicConfig;
    deleteTopic @11 :Text;
    listTopics @12 :ListTopics;
    describeTopic @13 :Text;
    queryMessages @14 :QueryMessages;
    viewMessage @15 :Int64;              # physical offset
    status @16 :Void;
    registerBroker @17 :RegisterBroker;  # attachment: topic table (below)
    unregisterBroker @18 :UnregisterBroker;
    heartbeat @19 :Heartbeat;
    leaveGroup @20 :LeaveGroup;
    listGroups @21 :ListTopics;
    describeGroup @22 :Text;             # group
    createGroup @23 :GroupConfig;
    deleteGroup @24 :Text;               # group
    searchOffset @25 :SearchOffset;
    resetOffset @26 :ResetOffset;
    queryCluster @27 :Void;
    wipeWritePerm @28 :Text;             # broker name
    addWritePerm @29 :Text;              # broker name
    getConfig @30 :Void;
    updateConfig @31 :Pair;
  }
}

struct Response {
  opaque @0 :UInt32;
  union {
    refusal @1 :Refusal;
    ok @2 :Void;
    hello @3 :HelloReply;
    sent @4 :Sent;
    pulled @5 :Pulled;                   # attachment: stored records, back to back
    offset @6 :Int64;
    queue @7 :QueueRange;
    route @8 :Route;
    topics @9 :Topics;                   # attachment: topic table
    topic @10 :Topic;
    messages @11 :Int32;                 # count; attachment: stored records
    registered @12 :Registered;
    status @13 :List(Pair);
    members @14 :Members;                # attachment: ids, then who is absent (below)
    groups @15 :Groups;                  # attachment: summaries
    group @16 :Group;                    # attachment: members, then queues
    offsetsReset @17 :UInt32;            # count; attachment: queues
    cluster @18 :UInt32;                 # count; attachment: brokers
    topicsChanged @19 :Int32;
  }
}

struct Hello { version @0 :UInt16; features @1 :UInt64; client @2 :Text; }
struct HelloReply { version @0 :UInt16; features @1 :UInt64; server @2 :Text; frameBytesMax @3 :Int32; }
struct Send {
  topic @0 :Text;
  queueId @1 :Int32 = -1;
  flag @2 :Int32;
  sysFlag @3 :UInt32;
  bornMs @4 :Int64;
  reconsumeTimes @5 :Int32;
  properties @6 :Data;                   # name 0x01 value 0x02, repeated
}
struct SendBatch { topic @0 :Text; queueId @1 :Int32 = -1; sysFlag @2 :UInt32; bornMs @3 :Int64; }
struct Pull {
  group @0 :Text;
  topic @1 :Text;
  queueId @2 :Int32;
  offset @3 :Int64;
  countMax @4 :Int32;
  bytesMax @5 :Int32;
  suspendMs @6 :UInt32;
  subscription @7 :Text;
}
struct CommitOffset { group @0 :Text; topic @1 :Text; queueId @2 :Int32; offset @3 :Int64; needsFlush @4 :Bool; }
struct QueryOffset { group @0 :Text; topic @1 :Text; queueId @2 :Int32; }
struct QueryQueue { topic @0 :Text; queueId @1 :Int32; }
struct TopicConfig { name @0 :Text; readQueues @1 :Int32; writeQueues @2 :Int32; perm @3 :UInt32; }
struct ListTopics { after @0 :Text; countMax @1 :Int32; }
struct QueryMessages { topic @0 :Text; key @1 :Text; countMax @2 :Int32; beginMs @3 :Int64; endMs @4 :Int64; }
struct RegisterBroker {
  cluster @0 :Text;
  brokerName @1 :Text;
  brokerId @2 :Int64;
  host @3 :Text;
  port @4 :UInt16;
  topicsVersion @5 :UInt64;
  isComplete @6 :Bool;
  topicCount @7 :UInt32;
  version @8 :Text;                      # of the program
}
struct UnregisterBroker { cluster @0 :Text; brokerName @1 :Text; brokerId @2 :Int64; }

struct Refusal { code @0 :Int32; cause @1 :Text; measured @2 :Text; retryAfterMs @3 :UInt32; }
struct Sent { code @0 :Int32; queueId @1 :Int32; queueOffset @2 :Int64; count @3 :Int32; physicalOffset @4 :Int64; messageId @5 :Text; }
struct Pulled { code @0 :Int32; next @1 :Int64; min @2 :Int64; max @3 :Int64; count @4 :Int32; }
struct QueueRange { min @0 :Int64; max @1 :Int64; }
struct RouteAddress { brokerId @0 :Int64; address @1 :Text; }
struct RouteBroker { cluster @0 :Text; name @1 :Text; addresses @2 :List(RouteAddress); }
struct RouteQueues { broker @0 :Text; readQueues @1 :Int32; writeQueues @2 :Int32; perm @3 :UInt32; }
struct Route { brokers @0 :List(RouteBroker); queues @1 :List(RouteQueues); }
struct Topics { count @0 :UInt32; hasMore @1 :Bool; }
struct TopicQueue { queueId @0 :Int32; min @1 :Int64; max @2 :Int64; }
struct Topic { config @0 :TopicConfig; queues @1 :List(TopicQueue); }
struct Registered { topicsVersion @0 :UInt64; needsTopics @1 :Bool; }
struct Pair { name @0 :Text; value @1 :Text; }
struct Subscription { topic @0 :Text; expression @1 :Text; }
struct Heartbeat {
  clientId @0 :Text;
  group @1 :Text;
  version @2 :Text;
  model @3 :UInt8;
  from @4 :UInt8;
  fromMs @5 :Int64;
  subscriptions @6 :List(Subscription);
  generationKnown @7 :UInt64;
  suspendMs @8 :UInt32;
}
struct LeaveGroup { clientId @0 :Text; group @1 :Text; }
struct GroupConfig {
  name @0 :Text;
  consumeEnable @1 :Bool = true;
  consumeFromMinEnable @2 :Bool = true;
  consumeBroadcastEnable @3 :Bool = true;
  consumeMessageOrderly @4 :Bool;
  notifyConsumerIdsChangedEnable @5 :Bool = true;
  retryQueueNums @6 :Int32 = 1;
  retryMaxTimes @7 :Int32 = 16;
  consumeTimeoutMinute @8 :Int32 = 15;
  groupSysFlag @9 :Int32;
  brokerId @10 :Int64;
  whichBrokerWhenConsumeSlowly @11 :Int64 = 1;
}
struct SearchOffset { topic @0 :Text; queueId @1 :Int32; stampMs @2 :Int64; }
struct ResetOffset {
  group @0 :Text;
  topic @1 :Text;
  queueId @2 :Int32 = -1;
  to @3 :UInt8;                          # 0 first, 1 last, 2 timestamp, 3 offset
  stampMs @4 :Int64;
  offset @5 :Int64;
  dryRun @6 :Bool;
}

struct Members { generation @0 :UInt64; count @1 :UInt32; absentCount @2 :UInt32; conflict @3 :Text; }
struct Groups { count @0 :UInt32; hasMore @1 :Bool; }
struct Group { config @0 :GroupConfig; isConfigured @1 :Bool; memberCount @2 :UInt32; queueCount @3 :UInt32; conflict @4 :Text; }
