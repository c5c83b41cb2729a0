"""The four-letter words, compared with a real ZooKeeper, and the same as JSON over HTTP."""

import json
import pathlib
import re
import struct
import time
import urllib.request

import pytest

import zk
from conftest import KEEPER_ONLY, OnEnsemble, Server, call, drover as command, errors, wait_until
from wire_client import *  # noqa: F403: the vocabulary of the tests
from wire_support import drover  # noqa: F401: fixtures

WORDS = ("conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk wchc wchp "
         "wchs").split()
MASK = struct.pack(">q", 306).decode()
CUT_AT = 8 * 1024 * 1024

# What ZooKeeper reports and we do not, by the word; and why.
LEFT_OUT = {
    "conf": {
        "tickTime",  # there is no tick: sessions expire on time
    },
    "envi": {
        # of the Java runtime
        "java.vendor", "java.home", "java.class.path", "java.library.path",
        "java.io.tmpdir", "java.compiler", "os.memory.free", "os.memory.max", "os.memory.total",
    },
    "dirs": set(),
}

# The same of mntr: patterns of the names without zk_.
LEFT_OUT_OF_MNTR = {
    "of the latencies, only sums are kept": r"p\d+_(read|update)latency",
    "of the queues between its threads":
        r"(\w+_)?(prep_process|sync_process|commit_process|commit_proc_|commitproc_|final_proc_)\w*"
        r"|\w+_session_queue(_size|s_drained)?|\w+_(session_queues_drained|in_commit_processor(_read_ms)?)"
        r"|outstanding_changes_\w+|request_commit_queued|requests_not_forwarded_to_commit_processor"
        r"|\w+_(proposal_process_time|close_session_prep_time|socket_closing_time|propagation_latency|write_committed_time_ms)",
    "of throttling, which there is none":
        r"\w*throttle\w*|stale_(requests|requests_dropped|replies)|large_requests_rejected"
        r"|connection_drop_probability|\w+_connection_token_deficit",
    "of an ensemble":
        r"(\w+_)?learner_\w+|\w+_(sync_time|election_time|unavailable_time|quorum_ack_latency)"
        r"|\w+_om_\w+|\w+_proposal(_ack_creation)?_latency|(looking|proposal|commit|diff|snap)_count"
        r"|revalidate_count|\w+_inflight_(snap|diff)_count|ensemble_auth_\w+|digest_mismatches_count"
        r"|quit_leading_due_to_disloyal_voter|local_sessions",
    "of TLS":
        r"non_mtls_\w+|\w+_handshake|tls_handshake_exceeded|insecure_admin_count|auth_failed_count"
        r"|\w+_netty_queued_buffer_capacity",
    "of its caches and tables": r"response_packet_\w+|(\w+_)?dead_watcher\w+|watch_bytes",
    "of the Java runtime": r"\w+_jvm_pause_time_ms",
    "not counted":
        r"(last|min|max)_client_response_size|\w+_node_(created|deleted|changed|children)_watch_count"
        r"|\w+_per_namespace|\w+_(startup_\w+|dbinittime)|stale_sessions_expired|connection_drop_count"
        r"|cnxn_closed_without_zk_server_running|unrecoverable_error_count",
}


@pytest.fixture(scope="module")
def theirs(zookeeper):
    return zookeeper.nodes[0].port


@pytest.fixture
def both(all_words, theirs):
    return all_words.zk_port, theirs


@pytest.fixture(scope="module")
def all_words(tmp_path_factory):
    """A server that answers all words, and HTTP."""
    server = Server("--data", tmp_path_factory.mktemp("drover") / "data", "--zk-words", "*")
    try:
        yield server.start()
        assert server.stop() == 0, server.said
    finally:
        server.kill()


@pytest.fixture
def port(all_words):
    return all_words.zk_port


@pytest.fixture
def client(port):
    with Client(port) as c:
        yield c
        if not c.closed:
            c.end()


def say(port, word):
    return four_letters(port, word + (MASK if word == "stmk" else ""))


def pairs(answer, separator):
    return dict(line.split(separator, 1) for line in answer.splitlines() if separator in line)


def monitor(port):
    return pairs(four_letters(port, "mntr"), "\t")


def connection(port, session):
    """The values of a session's line in cons."""
    [line] = [line for line in four_letters(port, "cons").splitlines() if f"sid=0x{session:x}," in line]
    return pairs(re.search(r"\((.*)\)$", line)[1].replace(",", "\n"), "=")


def settled(port, session):
    """The same, when every answer is counted: ZooKeeper does so after the client has it."""
    def found():
        values = connection(port, session)
        return values if values["queued"] == "0" and values["sent"] == values["recved"] else None

    return wait_until(found, "all answers to be counted")


def json_of(server, name, method="GET", body=None):
    status, answer = call(server.port, method, f"/v1/keeper/commands/{name}", body)
    assert status == 200, answer
    return answer


# Beside ZooKeeper.

def form(answer):
    """An answer without its values: numbers, times, addresses, names of operations."""
    answer = re.sub(r"expire (at .*|never):", "expire TIME:", answer)
    answer = re.sub(r"0x[0-9a-f]+", "HEX", answer)
    answer = re.sub(r"/127\.0\.0\.1:\d+", "PEER", answer)
    answer = re.sub(r"version: .*", "version: VERSION", answer)
    answer = re.sub(r"\[(\d)\]", lambda found: "[reads]" if found[1] == "1" else f"[{'-' * int(found[1])}]", answer)
    return re.sub(r"\d+(\.\d+)?", "N", answer)


@pytest.fixture
def scene(both):
    """On both servers the same: one client, with nodes, an ephemeral node and watches."""
    clients = []
    for port in both:
        c = Client(port)
        clients.append(c)
        for path in ("/w", "/w/a", "/w/b"):
            c.must(create(path, b"data"))
        c.must(create("/w/e", flags=EPHEMERAL))
        c.must(get_data("/w/a", watch=True))
        assert c.call(exists("/w/none", watch=True)).error == NO_NODE
        c.must(get_children("/w", watch=True))
    yield clients
    for c in clients:
        for path in ("/w/e", "/w/a", "/w/b", "/w"):
            c.must(delete(path))
        c.end()


def assert_same(ours, real):
    """real(): of ZooKeeper, which is asked again: what it counts of a request, and whether it reads from a
    connection, can be behind its answer."""
    found = [real()]
    while found[-1] != ours and len(found) < 20:
        time.sleep(0.1)
        found.append(real())
    assert ours == found[-1]


@pytest.mark.parametrize("word", ["gtmk", "isro", "ruok", "stmk", "crst", "srst"])
def test_words_with_one_answer(both, word):
    ours, real = [say(port, word) for port in both]
    assert ours == real and ours


@pytest.mark.parametrize("word", ["srvr", "stat", "cons", "wchs", "wchc", "wchp", "hash"])
def test_words_of_the_same_form(both, scene, word):
    order = str if word in ("srvr", "wchs", "hash") else lambda answer: sorted(answer.splitlines())
    mine, theirs = both
    assert_same(order(form(say(mine, word))), lambda: order(form(say(theirs, word))))


@pytest.mark.parametrize("word, separator", [("conf", "="), ("envi", "="), ("dirs", ": ")])
def test_words_with_the_keys_of_zookeeper(both, word, separator):
    ours, real = [list(pairs(say(port, word), separator)) for port in both]
    assert ours == [key for key in real if key not in LEFT_OUT[word]]
    assert LEFT_OUT[word] <= set(real)


def test_mntr_has_the_keys_of_zookeeper(both):
    ours, real = [{key[3:] for key in monitor(port)} for port in both]
    left_out = {key for key in real if re.fullmatch("|".join(LEFT_OUT_OF_MNTR.values()), key)}
    assert {key for key in ours if not key.startswith("drover_")} == real - left_out
    for reason, pattern in LEFT_OUT_OF_MNTR.items():
        assert any(re.fullmatch(pattern, key) for key in left_out), reason


def test_sets_the_trace_mask(port):
    mask = 1 << 40 | 7
    assert four_letters(port, "stmk" + struct.pack(">q", mask).decode()) == str(mask)
    assert four_letters(port, "gtmk") == str(mask)
    assert say(port, "stmk") == "306"


def test_a_mask_that_comes_in_parts(port):
    with Client(port, hello=False) as c:
        for part in (b"st", b"mk", bytes(7)):
            c.send(part)
        assert four_letters(port, "ruok") == "imok"
        c.send(b"\x07")
        assert c.read(1) == b"7"
    assert say(port, "stmk") == "306"


def test_a_word_may_be_followed_by_a_line_end(port):
    assert four_letters(port, "ruok\n") == "imok"


# What monitoring agents do with the answers.

def test_every_line_of_mntr_is_readable(port):
    for line in four_letters(port, "mntr").splitlines():
        assert re.match(r"^zk_\w+\t[\w.\-]+", line), line  # Telegraf refuses the whole answer otherwise
        key, value = line.split("\t")
        if key not in ("zk_version", "zk_server_state"):
            float(value)


@pytest.mark.parametrize("key", (
    "version server_state avg_latency max_latency min_latency packets_received packets_sent "
    "num_alive_connections outstanding_requests znode_count watch_count ephemerals_count "
    "approximate_data_size open_file_descriptor_count max_file_descriptor_count").split())
def test_mntr_has_what_agents_look_for(port, key):
    assert "zk_" + key in monitor(port)


def test_srvr_as_metricbeat_reads_it(port):
    first, *lines = four_letters(port, "srvr").splitlines()
    assert re.search(r":\s(.*),", first) and re.search(r"built on (.*)", first)
    assert re.search(r"(\d+\.\d+\.\d+)", first)[1] == "3.8.0"
    assert [line.split(":")[0] for line in lines if re.match(r"^([a-zA-Z\s]+):\s(\d+)", line)] == [
        "Received", "Sent", "Connections", "Outstanding", "Zxid", "Node count"]


def test_stat_as_datadog_reads_it(port, client):
    lines = iter(four_letters(port, "stat").splitlines())
    assert re.search(r"(\d+\.\d+\.\d+)", next(lines))
    assert next(lines) == "Clients:"
    clients = 0
    while line := next(lines).strip():
        assert re.fullmatch(r"/127\.0\.0\.1:\d+\[[01]\]\(queued=\d+,recved=\d+,sent=\d+\)", line)
        clients += 1
    names = [line.split(":")[0] for line in lines]
    assert clients >= 2 and names == ["Latency min/avg/max", "Received", "Sent", "Connections",
                                      "Outstanding", "Zxid", "Mode", "Node count"]


# Values.

COUNTED = ["znode_count", "watch_count", "ephemerals_count", "approximate_data_size",
           "global_sessions", "num_alive_connections", "connection_request_count",
           "connection_revalidate_count"]


def packets(port):
    """From srvr: a word counts as a packet, and ZooKeeper sends long answers as several."""
    said = pairs(four_letters(port, "srvr"), ": ")
    return {key: int(said[key]) for key in ("Received", "Sent")}


def test_the_same_requests_count_the_same(both):
    """Differences of values that are not zero before, so that both servers may have a past."""
    def changes(port):
        before, packets_before = monitor(port), packets(port)
        with Client(port) as first, Client(port, session=first.session, password=first.password) as c:
            for path in ("/c", "/c/a", "/c/b"):
                c.must(create(path, b"12345"))
            c.must(multi(set_data("/c/a", b"longer than it was"), create("/c/e", flags=EPHEMERAL)))
            assert c.call(multi(set_data("/c/b", b"x" * 100), delete("/none"))).error == OK
            c.must(set_data("/c/b", b"1"))
            c.must(get_data("/c", watch=True))
            c.must(get_children("/c", watch=True))
            c.must(exists("/c/a", watch=True))
            assert c.call(exists("/c/none", watch=True)).error == NO_NODE
            c.must(add_watch("/c", PERSISTENT))
            c.must(add_watch("/c/b", RECURSIVE))
            c.must(set_data("/c/a", b"a watch fires"))
            c.take_events()
            packets_after, after = packets(port), monitor(port)
            found = {key: int(after["zk_" + key]) - int(before["zk_" + key]) for key in COUNTED}
            found |= {key: packets_after[key] - packets_before[key] for key in packets_after}
            for path in ("/c/e", "/c/a", "/c/b", "/c"):
                c.must(delete(path))
            c.end()
        return found

    mine, theirs = both
    ours = changes(mine)
    assert ours["znode_count"] == 4 and ours["watch_count"] > 0
    assert_same(ours, lambda: changes(theirs))


def test_cons_describes_a_session(both):
    """What it did last, with its numbers, is the same on both."""
    seen = []
    for port in both:
        with Client(port, timeout_ms=20000) as c:
            values = [settled(port, c.session)]
            for request in (create("/l"), get_data("/l"), ping(), exists("/"), set_data("/l", b"1"),
                            multi(check("/l", 1)), auth("a:b"), get_children("/"), delete("/l"),
                            create2("/l"), sync("/"), get_acl("/l"), set_acl("/l", OPEN), who_am_i(),
                            get_ephemerals("/"), all_children_number("/"), get_children2("/"),
                            multi_read(get_data("/l")), set_watches(0), set_watches(0, persistent=[]),
                            add_watch("/l", RECURSIVE), check_watches("/l", ANY_WATCH),
                            remove_watches("/l", ANY_WATCH), create_container("/l/c"),
                            create_ttl("/l/t", 100000), delete("/l/t"), delete("/l/c"), delete("/l")):
                c.call(request)
                values.append(settled(port, c.session))
            for each in values:
                assert int(each["minlat"]) <= int(each["avglat"]) <= int(each["maxlat"])
                assert abs(int(each["est"]) / 1000 - time.time()) < 600
                assert each["sid"] == f"0x{c.session:x}"
            assert int(values[-1]["lresp"]) >= int(values[0]["lresp"]) > 0
            seen.append([{key: each.get(key) for key in ("queued", "recved", "sent", "lop", "to", "lcxid")}
                         for each in values])
            assert int(values[-1]["lzxid"], 16) > int(values[0]["lzxid"], 16)
            c.end()
    assert seen[0] == seen[1]


def test_words_name_watches_and_ephemeral_nodes(port, client):
    sid = f"0x{client.session:x}"
    client.must(create("/n", flags=EPHEMERAL))
    client.must(exists("/n", watch=True))
    with Client(port) as other:
        other.must(exists("/n", watch=True))
        assert f"\n{sid}:\n\t/n\n" in four_letters(port, "dump")
        assert f"{sid}\n\t/n\n" in four_letters(port, "wchc")
        by_path = four_letters(port, "wchp")
        assert by_path.startswith("/n\n") and {f"\t{sid}", f"\t0x{other.session:x}"} < set(by_path.splitlines())
        assert four_letters(port, "wchs") == "2 connections watching 1 paths\nTotal watches:2\n"
        other.end()


def test_dump_has_the_form_of_zookeeper(both, scene):
    ours, real = [re.sub(r"N expire TIME:\n(\t.*\n)*", "", form(four_letters(port, "dump"))) for port in both]
    assert ours == real


def test_sessions_expire_when_dump_says(port):
    with Client(port, timeout_ms=20000) as c:
        found = re.search(rf"expire at (.*):\n(?:\t.*\n)*?\t0x{c.session:x}\n", four_letters(port, "dump"))
        at = time.mktime(time.strptime(found[1], "%a %b %d %H:%M:%S %Z %Y"))
        assert 0 <= at - time.time() <= 21
        c.end()


def test_conf_has_what_was_configured(tmp_path):
    server = Server("--data", tmp_path / "data", "--zk-connections-per-address", 7,
                    "--zk-min-session-timeout", "2s", "--zk-max-session-timeout", "30s", *KEEPER_ONLY).start()
    try:
        conf = pairs(four_letters(server.zk_port, "conf"), "=")
        assert (conf["maxClientCnxns"], conf["minSessionTimeout"], conf["maxSessionTimeout"]) == (
            "7", "2000", "30000")
        assert conf["clientPort"] == str(server.zk_port) and conf["dataDir"] == str(tmp_path / "data")
        sizes = pairs(four_letters(server.zk_port, "dirs"), ": ")
        journal = sum(each.stat().st_size for each in (tmp_path / "data").glob("journal-*"))
        assert journal and int(sizes["logdir_size"]) == int(conf["dataLogSize"]) == journal
        assert server.stop() == 0, server.said
    finally:
        server.kill()


# Resets.

def test_resets_the_counts_of_connections(port, client):
    client.must(create("/r"))
    client.must(delete("/r"))
    assert four_letters(port, "crst") == "Connection stats reset.\n"
    after = connection(port, client.session)
    assert (after["recved"], after["sent"], after["lop"]) == ("0", "0", "NA")
    assert "lcxid" not in after and after["lzxid"] == "0xffffffffffffffff" and after["lresp"] == "0"
    client.must(exists("/"))
    after = connection(port, client.session)
    assert (after["recved"], after["sent"], after["lop"]) == ("1", "1", "EXIS")


def test_resets_the_counts_of_the_server(port, client):
    client.must(exists("/"))
    assert int(monitor(port)["zk_packets_received"]) > 1
    assert four_letters(port, "srst") == "Server stats reset.\n"
    after = monitor(port)
    assert after["zk_packets_received"] == after["zk_packets_sent"] == "1"  # mntr, and srst
    assert after["zk_cnt_readlatency"] == after["zk_max_latency"] == after["zk_cnt_fsynctime"] == "0"
    client.must(exists("/"))
    assert monitor(port)["zk_packets_received"] == "3" and monitor(port)["zk_cnt_readlatency"] == "1"
    assert int(after["zk_znode_count"]) > 0 and after["zk_uptime"] != "0"


# Which words are answered.

def refused(word):
    return f"{word} is not executed because it is not in the whitelist.\n"


def test_by_default_all_words_but_two(drover, theirs):  # noqa: F811
    for word in WORDS:
        said = say(drover.zk_port, word)
        assert (said == refused(word)) == (word in ("wchc", "wchp")), word


@pytest.mark.parametrize("given, allowed", [
    ("ruok, mntr,", ["ruok", "mntr", "srvr"]), ("srvr", ["srvr"]), ("*", WORDS), ("ruok,*", WORDS),
])
def test_a_list_of_words(tmp_path, given, allowed):
    server = Server("--journal", "none", "--zk-words", given, *KEEPER_ONLY).start()
    try:
        assert [word for word in WORDS if say(server.zk_port, word) != refused(word)] == sorted(allowed)
        assert server.stop() == 0, server.said
    finally:
        server.kill()


def test_an_unknown_word_is_named_and_ignored(tmp_path):
    server = Server("--journal", "none", "--zk-words", "ruok,nope", *KEEPER_ONLY).start()
    try:
        assert say(server.zk_port, "ruok") == "imok" and say(server.zk_port, "mntr") == refused("mntr")
        assert server.stop() == 0
        assert "nope is no four-letter word and is ignored" in server.said
    finally:
        server.kill()


def test_words_do_not_go_with_an_ensemble():
    done = command("serve", "--zk-words", "ruok", "--keeper", "zk://127.0.0.1:1")
    assert done.returncode == 2 and "does not go with --keeper" in done.stderr


# Long answers.

def test_long_lists_are_cut(all_words, port):
    with Client(port) as c:
        path = "/" + "x" * 1000
        count = 9000
        c.send(b"".join(c.encode(exists(f"{path}{i:05}", watch=True)) for i in range(count)))
        for _ in range(count):
            c.answer()
        for word in ("wchc", "wchp"):
            answer = four_letters(port, word)
            assert CUT_AT <= len(answer) < CUT_AT + 3000 and answer.endswith(f"truncated after {CUT_AT} bytes\n")
            assert json_of(all_words, word)["truncated"] is True
        assert four_letters(port, "wchs").endswith(f"{count} paths\nTotal watches:{count}\n")
        c.end()
    assert four_letters(port, "wchc") == "\n"


# JSON.

def test_lists_the_commands(all_words):
    status, answer = call(all_words.port, "GET", "/v1/keeper/commands")
    assert status == 200
    assert sorted(each["word"] for each in answer["commands"]) == sorted(WORDS)
    changing = {each["word"] for each in answer["commands"] if each["method"] == "POST"}
    assert changing == {"crst", "srst", "stmk"}


def test_every_command_answers(all_words):
    for each in call(all_words.port, "GET", "/v1/keeper/commands")[1]["commands"]:
        body = {"mask": 306} if each["word"] == "stmk" else None if each["method"] == "GET" else {}
        by_name, by_word = [json_of(all_words, each[key], each["method"], body) for key in ("command", "word")]
        assert by_name["command"] == by_word["command"] == each["command"]
        assert set(by_name) == set(by_word)


def test_dump_without_a_connection(start):
    server = start("--zk-words", "*")
    assert json_of(server, "dump")["expiry_time_to_connections"] == {}
    assert server.stop() == 0, server.said


def test_json_has_the_values_of_the_text(all_words, port, client):
    text, parsed = monitor(port), json_of(all_words, "monitor")
    del parsed["command"]
    assert list(text) == ["zk_" + key for key in parsed]
    same = {"znode_count", "watch_count", "version", "packets_received", "global_sessions", "drover_snapshots"}
    assert {key: text["zk_" + key] for key in same} == {key: str(parsed[key]) for key in same}
    assert json_of(all_words, "watches_by_path")["path_to_session_ids"] == {}
    assert client.call(exists("/j", watch=True)).error == NO_NODE
    assert json_of(all_words, "watches_by_path")["path_to_session_ids"] == {"/j": [f"0x{client.session:x}"]}
    assert json_of(all_words, "watches")["session_id_to_watched_paths"] == {f"0x{client.session:x}": ["/j"]}
    [mine] = [each for each in json_of(all_words, "connections")["connections"]
              if each.get("session_id") == f"0x{client.session:x}"]
    line = connection(port, client.session)
    assert mine["last_operation"] == line["lop"] == "EXIS"
    assert mine["packets_received"] == int(line["recved"]) == 2
    assert json_of(all_words, "server_stats")["server_stats"]["server_state"] == "standalone"
    assert json_of(all_words, "conf")["client_port"] == port


def test_resets_over_http(all_words, port, client):
    client.must(exists("/"))
    json_of(all_words, "connection_stat_reset", "POST", {})
    json_of(all_words, "srst", "POST", {})
    assert connection(port, client.session)["recved"] == "0"
    assert monitor(port)["zk_packets_received"] == "2"  # cons and mntr
    assert json_of(all_words, "set_trace_mask", "POST", {"mask": 7})["tracemask"] == 7
    assert four_letters(port, "gtmk") == "7" and say(port, "stmk") == "306"


def test_what_http_refuses(all_words):
    for method, name, body in (("GET", "srst", None), ("POST", "srvr", {})):
        status, answer = call(all_words.port, method, f"/v1/keeper/commands/{name}", body)
        assert status == 400 and answer["field"] == "command" and "goes with" in errors(answer)[0]
    status, answer = call(all_words.port, "GET", "/v1/keeper/commands/nope")
    assert status == 404 and errors(answer) == ["there is no command nope"]


def test_without_a_port_there_are_no_commands(tmp_path, zookeeper):
    alone = Server("--journal", "none", "--zk", "none")
    alone.port = int(alone.wait_for(r"listening on http://127\.0\.0\.1:(\d+)\n")[1])
    other = OnEnsemble(zookeeper.url("/words")).start()
    try:
        for server, reason in ((alone, "no ZooKeeper port"), (other, "ensemble")):
            assert call(server.port, "GET", "/v1/keeper/commands") == (200, {"commands": []})
            status, answer = call(server.port, "GET", "/v1/keeper/commands/mntr")
            assert status == 404 and reason in errors(answer)[0]
            assert server.stop() == 0, server.said
    finally:
        alone.kill()
        other.kill()


ADMIN_JARS = ["jetty9-server", "jetty9-servlet", "jetty9-util", "jetty9-util-ajax", "jetty9-http", "jetty9-io",
              "jetty9-security", "jackson-annotations", "jackson-core", "jackson-databind", "servlet-api"]

# Members of the AdminServer's replies that we do not have: of errors, which have a status here; of TLS;
# and those that the text leaves out. Then members that only our text and JSON have.
ADMIN_ONLY = {"error", "secure_connections", "tick_time", "client_response", "client_response_stats",
              "last_buffer_size", "min_buffer_size", "max_buffer_size",
              "fsync_threshold_exceed_count", "provider_null", "data_dir_size", "log_dir_size",
              "auth_failed_count", "non_mtlsremote_conn_count", "non_mtlslocal_conn_count"} | LEFT_OUT["envi"]
OURS_ONLY = {"secure_client_port", "data_dir_size", "data_log_size", "expiry_time_to_connections"}


@pytest.fixture(scope="module")
def admin(tmp_path_factory):
    """The port of ZooKeeper's own JSON server."""
    jars = [pathlib.Path(f"/usr/share/java/{name}.jar") for name in ADMIN_JARS]
    if missing := [jar.name for jar in jars if not jar.exists()]:
        pytest.skip(f"there is no {missing[0]}")
    one = zk.Ensemble(tmp_path_factory.mktemp("admin"))
    config, [port] = one.nodes[0].dir / "zoo.cfg", zk.free_ports(1)
    config.write_text(config.read_text().replace(
        "enableServer=false", f"enableServer=true\nadmin.serverPort={port}\nadmin.serverAddress=127.0.0.1"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOOKEEPER_JARS", ":".join([zk.JARS, *map(str, jars)]))
        with one:
            with Client(one.nodes[0].port) as c:
                c.must(exists("/", watch=True))
                yield port


def names(value):
    """The names of all members, at any depth; not those of maps with any names."""
    if isinstance(value, list):
        return set().union(*map(names, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(names(member) for name, member in value.items() if "_to_" not in name))


@pytest.mark.slow
def test_json_has_the_names_of_the_admin_server(all_words, admin, client):
    for word in WORDS:
        if word in ("stmk", "mntr"):  # the names of mntr are compared above
            continue
        method, body = ("POST", {}) if word in ("crst", "srst") else ("GET", None)
        ours = names(json_of(all_words, word, method, body))
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/commands/{word}") as answer:
            real = names(json.load(answer))
        assert ours - OURS_ONLY == real - ADMIN_ONLY, word
