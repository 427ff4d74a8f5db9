// Configuration files: RocketMQ's own are accepted as they are, typos are not, and every refusal says what is allowed.

#include <gtest/gtest.h>

#include <set>

#include "core/model/config.h"

namespace fulmar {
namespace {

// One note a line: "3 ignored deleteWhen: reason".
std::string notes_of(std::string_view text) {
  std::vector<ConfigNote> notes;
  (void)parse_broker_config(text, &notes);
  std::string out;
  for (const ConfigNote& note : notes) {
    const char* kind = note.kind == ConfigNote::Kind::Ignored ? "ignored" : note.kind == ConfigNote::Kind::Unknown ? "unknown" : note.kind == ConfigNote::Kind::Bad ? "bad" : "conflict";
    out += fmt::format("{} {} {}: {}\n", note.line, kind, note.key, note.sentence);
  }
  return out;
}

TEST(Config, AnEmptyFileIsTheDefaults) {
  EXPECT_EQ(*parse_broker_config("", nullptr), BrokerConfig{});
  EXPECT_EQ(*parse_name_server_config("\n# nothing\n", nullptr), NameServerConfig{});
  EXPECT_EQ(*parse_client_config("", nullptr), ClientConfig{});
}
TEST(Config, ReadsEveryKindOfValue) {
  const auto config = parse_broker_config(
      "# a broker\r\n  brokerName = broker-b \r\nbrokerId=0\nnamesrvAddr=127.0.0.1:9876; [::1]:9877 ;;\n! Java's other comment\n"
      "flushDiskType=ASYNC_FLUSH\nautoCreateTopicEnable=TRUE\nmappedFileSizeCommitLog=65536\nlistenPort=1\nlistenPort=0\nstorePathRootDir=/a=b#c",
      nullptr);
  ASSERT_TRUE(config.has_value()) << config.error().text();
  EXPECT_EQ(config->broker_name, "broker-b");
  EXPECT_EQ(config->name_servers, (std::vector<std::string>{"127.0.0.1:9876", "[::1]:9877"}));
  EXPECT_EQ(config->flush_disk_type, FlushDiskType::Async);
  EXPECT_TRUE(config->is_topic_auto_created);
  EXPECT_EQ(config->commit_log_file_bytes, 65536u);
  EXPECT_EQ(config->listen_port, 0);
  EXPECT_EQ(config->store_path, "/a=b#c");
}
TEST(Config, TheShippedSampleOfRocketMqIsAccepted) {
  std::vector<ConfigNote> notes;
  const auto config = parse_broker_config(
      "brokerClusterName = DefaultCluster\nbrokerName = broker-a\nbrokerId = 0\ndeleteWhen = 04\nfileReservedTime = 48\nbrokerRole = ASYNC_MASTER\n"
      "flushDiskType = ASYNC_FLUSH\n",
      &notes);
  ASSERT_TRUE(config.has_value()) << config.error().text();
  EXPECT_EQ(config->file_reserved_hours, 48);
  EXPECT_TRUE(config->delete_hours.has(4));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].kind, ConfigNote::Kind::Ignored);
  EXPECT_EQ(notes[0].line, 6);
  EXPECT_EQ(notes[0].key, "brokerRole");
  EXPECT_EQ(notes[0].sentence, "replication is not there yet: this broker is alone and acts as its own master");
}
TEST(Config, HoursOfDeletionAreReadAsRocketMqWritesThem) {
  const auto hours = [](const char* text) { return parse_broker_config(std::string("deleteWhen=") + text, nullptr)->delete_hours.mask; };
  EXPECT_EQ(hours("04"), 1u << 4);
  EXPECT_EQ(hours("4"), 1u << 4);
  EXPECT_EQ(hours(" 00 ; 23;;04 "), 1u | 1u << 23 | 1u << 4);
  EXPECT_EQ(notes_of("deleteWhen=24\ndeleteWhen=\ndeleteWhen=04,05\ndeleteWhen=04;x"),
            "1 bad deleteWhen: '24' is not an hour from 00 to 23\n"
            "2 bad deleteWhen: names no hour; expired files would never be deleted\n"
            "3 bad deleteWhen: '04,05' is not an hour from 00 to 23\n"
            "4 bad deleteWhen: 'x' is not an hour from 00 to 23\n");
  BrokerConfig config;
  config.delete_hours = {1u << 4 | 1u << 16};
  EXPECT_NE(serialise(config).find("deleteWhen=04;16\n"), std::string::npos);
}
TEST(Config, ARetentionThatWouldDeleteEverythingIsRefused) {
  EXPECT_EQ(notes_of("fileReservedTime=0\nfileReservedTime=-1\ndiskMaxUsedSpaceRatio=0\ndiskSpaceCleanForciblyRatio=1\nretainBytesMax=-1"),
            "1 bad fileReservedTime: 0 is not in [1, 1000000]\n"
            "2 bad fileReservedTime: -1 is not in [1, 1000000]\n"
            "3 bad diskMaxUsedSpaceRatio: 0 is not in [10, 99]\n"
            "4 bad diskSpaceCleanForciblyRatio: 1 is not in [30, 99]\n"
            "5 bad retainBytesMax: -1 is not in [0, 9223372036854775807]\n");
  EXPECT_EQ(notes_of("brokerId=1\nfileReservedMs=1"),
            "2 conflict fileReservedMs: 1 would delete messages before anybody can read them: 0, or at least 10000\n");
  EXPECT_EQ(notes_of("mappedFileSizeCommitLog=65536\nretainBytesMax=131071"),
            "2 conflict retainBytesMax: 131071 is less than two commit log files (mappedFileSizeCommitLog is 65536): messages would go as soon as they are written\n");
  EXPECT_EQ(notes_of("mappedFileSizeCommitLog=65536\nretainBytesMax=131072\nfileReservedMs=10000"), "");
}
TEST(Config, BindAddressIsListenHost) { EXPECT_EQ(parse_broker_config("bindAddress=127.0.0.1", nullptr)->listen_host, "127.0.0.1"); }

TEST(Config, UnknownKeysNameTheNearest) {
  EXPECT_EQ(notes_of("flushDiskTyp=SYNC_FLUSH\nListenPort=1\nfileReservedTim=3"),
            "1 unknown flushDiskTyp: unknown key; the nearest known one is flushDiskType\n"
            "2 unknown ListenPort: unknown key; the nearest known one is listenPort\n"
            "3 unknown fileReservedTim: unknown key; the nearest known one is fileReservedTime\n");
  EXPECT_EQ(parse_broker_config("x=1\nbrokerId=-1", nullptr).error().text().substr(0, 36), "InvalidArgument: line 1: x: unknown ");
  // "1 unknown " is ten bytes
  EXPECT_EQ(notes_of(std::string(300, 'k') + "=1").substr(300), "kkkkkkkkkk: unknown key; `fulmar config explain` lists all\n");
}
TEST(Config, NoKeyIsNamedThatIsNotNear) {
  EXPECT_EQ(notes_of("xyzzy=1"), "1 unknown xyzzy: unknown key; `fulmar config explain` lists all\n");
  EXPECT_EQ(notes_of("brokreName=1"), "1 unknown brokreName: unknown key; the nearest known one is brokerName\n");
}
TEST(Config, ReadsWhatJavaWrites) {
  const auto config = parse_broker_config(
      "brokerName: broker-c\nbrokerClusterName:c\\:1\nnamesrvAddr = 10.0.0.1\\:9876; \\\n   10.0.0.2:9876;\\\r\n\\\n[::1]:9\n# no \\\nlistenPort 4000\n"
      "storePathRootDir=/d\\u00e4\\\\x",
      nullptr);
  ASSERT_TRUE(config.has_value()) << config.error().text();
  EXPECT_EQ(config->broker_name, "broker-c");
  EXPECT_EQ(config->cluster, "c:1");
  EXPECT_EQ(config->name_servers, (std::vector<std::string>{"10.0.0.1:9876", "10.0.0.2:9876", "[::1]:9"}));
  EXPECT_EQ(config->listen_port, 4000);
  EXPECT_EQ(config->store_path, "/d\u00e4\\x");
  EXPECT_EQ(*parse_broker_config(serialise(*config), nullptr), *config);
}
TEST(Config, BlanksAtTheEdgesOfAValueSurviveWhenTheyAreMeant) {
  const auto config = parse_broker_config("storePathRootDir= \\ a b\\   \nbrokerName=x", nullptr);
  ASSERT_TRUE(config.has_value()) << config.error().text();
  EXPECT_EQ(config->store_path, " a b ");
  EXPECT_EQ(config->broker_name, "x");
  EXPECT_EQ(*parse_broker_config(serialise(*config), nullptr), *config);
}
TEST(Config, LinesCountFromTheFirstOfThoseJoined) {
  EXPECT_EQ(notes_of("\nbrokerName=a\\\n\\\nb\nbrokerI=1\nbrokerName\\"),
            "5 unknown brokerI: unknown key; the nearest known one is brokerId\n6 bad brokerName: is not of the form key=value\n");
}
TEST(Config, AKeySetTwiceIsTold) {
  EXPECT_EQ(notes_of("listenPort=1\nbrokerName=a\nlistenPort=2\nlistenPort=3"),
            "1 ignored listenPort: set again in line 3, which counts\n3 ignored listenPort: set again in line 4, which counts\n");
}
TEST(Config, ValuesHaveBounds) {
  EXPECT_EQ(notes_of("mappedFileSizeCommitLog=65535\nmappedFileSizeCommitLog=65537\nmappedFileSizeConsumeQueue=161\nmaxIndexNum=7\nlistenPort=65536\n"
                     "diskSpaceWarningLevelRatio=100\nbrokerName=\nautoCreateTopicEnable=yes\nflushDiskType=sync\nlistenPort=0x10\nlistenPort=\n"
                     "brokerId=99999999999999999999\nno equals sign\nnamesrvAddr=a:1;b\nnamesrvAddr=a:0\n=3"),
            "1 bad mappedFileSizeCommitLog: 65535 is not in [65536, 2147479552]\n"
            "2 bad mappedFileSizeCommitLog: 65537 is not a multiple of 4096\n"
            "3 bad mappedFileSizeConsumeQueue: 161 is not a multiple of 20\n"
            "4 bad maxIndexNum: 7 is not in [8, 100000000]\n"
            "5 bad listenPort: 65536 is not in [0, 65535]\n"
            "6 bad diskSpaceWarningLevelRatio: 100 is not in [1, 99]\n"
            "7 bad brokerName: is empty\n"
            "8 bad autoCreateTopicEnable: 'yes' is neither true nor false\n"
            "9 bad flushDiskType: 'sync' is neither SYNC_FLUSH nor ASYNC_FLUSH\n"
            "10 bad listenPort: '0x10' is not a plain integer\n"
            "11 bad listenPort: '' is not a plain integer\n"
            "12 bad brokerId: 99999999999999999999 is not in [0, 2147483647]\n"
            "13 bad no equals sign: is not of the form key=value\n"
            "14 bad namesrvAddr: 'b' is not host:port\n"
            "15 bad namesrvAddr: the port of 'a:0' is not in [1, 65535]\n"
            "16 bad : is not of the form key=value\n");
}
TEST(Config, ControlBytesAreRefused) {
  EXPECT_EQ(notes_of(std::string_view("brokerName=a\0b", 14)), "1 bad brokerName: holds the control byte 0x00\n");
  EXPECT_EQ(notes_of("storePathRootDir=" + std::string(4097, 'x')), "1 bad storePathRootDir: has 4097 bytes, at most 4096 are allowed\n");
}
TEST(Config, PromisesThatWeDoNotKeepAreErrors) {
  EXPECT_EQ(notes_of("brokerRole=SYNC_MASTER"), "1 bad brokerRole: 'SYNC_MASTER' is not ASYNC_MASTER: replication is not there yet: this broker is alone and acts as its own master\n");
  for (const char* line : {"brokerRole=SLAVE", "aclEnable=true", "enableControllerMode=true", "enableDLegerCommitLog=true", "inSyncReplicas=2", "storeType=defaultRocksDB",
                           "haMasterAddress=10.0.0.1:10912", "authenticationEnabled=true"})
    EXPECT_FALSE(parse_broker_config(line, nullptr)) << line;
  for (const char* line : {"brokerRole=ASYNC_MASTER", "aclEnable=false", "inSyncReplicas=1", "storeType=default", "haMasterAddress=", "haListenPort=10912"})
    EXPECT_TRUE(parse_broker_config(line, nullptr)) << line;
}

TEST(Config, TheTableExplainsItself) {
  std::set<std::string_view> names;
  for (const ConfigKey& key : broker_config_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_FALSE(key.meaning.empty()) << key.name;
    const auto set = parse_broker_config(fmt::format("{}={}", key.name, key.value), nullptr);
    EXPECT_TRUE(set.has_value()) << key.name << "=" << key.value;
    EXPECT_TRUE(!set || *set == BrokerConfig{}) << key.name;
  }
  EXPECT_TRUE(names.contains("asyncUnflushedBytesMax"));
  EXPECT_TRUE(names.contains("sendMessageThreadPoolNums"));
}
TEST(Config, WritesWhatItReads) {
  BrokerConfig config;
  config.name_servers = {"a:1", "b:2"};
  config.is_index_enabled = false;
  EXPECT_EQ(*parse_broker_config(serialise(config), nullptr), config);
  EXPECT_EQ(serialise(NameServerConfig{}), "listenHost=0.0.0.0\nlistenPort=9876\nbrokerExpiry=10000\nmetricsExporterType=DISABLE\nmetricsPromExporterHost=\nmetricsPromExporterPort=5558\n");
}

TEST(Config, MetricsAreOffUntilRocketMQsKeysAskForThem) {
  EXPECT_EQ(parse_broker_config("", nullptr)->metrics_exporter, MetricsExporter::Disabled);
  const auto broker = parse_broker_config("metricsExporterType=PROM\nmetricsPromExporterHost=10.0.0.1\n", nullptr);
  ASSERT_TRUE(broker.has_value());
  EXPECT_EQ(broker->metrics_exporter, MetricsExporter::Prometheus);
  EXPECT_EQ(broker->metrics_host, "10.0.0.1");
  EXPECT_EQ(broker->metrics_port, 5557);
  EXPECT_EQ(parse_broker_config(serialise(*broker), nullptr).value(), *broker);
  EXPECT_EQ(parse_name_server_config("metricsExporterType=PROM\n", nullptr)->metrics_port, 5558);
  const auto other = parse_broker_config("metricsExporterType=LOG\n", nullptr);
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().detail.find("neither DISABLE nor PROM"), std::string::npos) << other.error().detail;
}

}  // namespace
}  // namespace fulmar
