"""/metrics: Prometheus' own checks, what each action moves, the table in doc/metrics.md."""

import json
import re
import shutil
import subprocess

import pytest
from certificates import Authority
from conftest import DEADLINE_S, ROOT, Http, Server, call, wait_until
from dag_support import Dag, shell

DOCUMENT = (ROOT / "doc/metrics.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| (counter|gauge|histogram) \|(.*?)\| ", DOCUMENT, re.MULTILINE)
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')


class Page:
    """What /metrics says: types by family, values by name and labels."""

    def __init__(self, http):
        http.connection.request("GET", "/metrics")
        self.text = http.connection.getresponse().read().decode()
        self.types, self.values = {}, {}
        for line in self.text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.types[name] = kind
            elif not line.startswith("# HELP "):
                name, labels, value = SAMPLE.fullmatch(line).groups()
                key = name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
                assert key not in self.values, f"twice: {line}"
                self.values[key] = float(value)

    def sum(self, name, **labels):
        """Of the samples that have these labels."""
        return sum(value for (of, has), value in self.values.items()
                   if of == name and set(labels.items()) <= has)

    def labels(self, family):
        """The names of the labels of a family, without a histogram's le."""
        of = {family, f"{family}_bucket"} if self.types[family] == "histogram" else {family}
        return {name for has_name, has in self.values if has_name in of for name, _ in has} - {"le"}


def promtool(*arguments, **more):
    assert shutil.which("promtool"), "promtool is missing: it comes with Debian's package prometheus"
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, **more)


def check_page(page):
    done = promtool("check", "metrics", input=page.text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stdout + done.stderr


def check_document(page, lacks=()):
    """Every metric of the page is in the table with its type and labels, and no other is, but those it lacks."""
    documented = {name: kind for name, kind, _ in ROWS}
    assert len(documented) == len(ROWS)
    missing = documented.keys() - page.types.keys()
    assert {name for name in missing if not name.startswith(lacks)} == set()
    assert page.types == {name: kind for name, kind in documented.items() if name in page.types}
    for name, _, labels in ROWS:
        if name in page.types and any(key[0].startswith(name) for key in page.values):
            assert page.labels(name) == set(re.findall(r"`(\w+)`", labels)), name


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """A server with everything, of which something was asked already."""
    cert, key = Authority(tmp_path_factory.mktemp("authority")).issue("localhost")
    server = Server("--data", tmp_path_factory.mktemp("metrics") / "data", "--https", "127.0.0.1:0", "--tls-cert",
                    cert, "--tls-key", key, "--snapshot-every", 1000, "--jobs", 2).start()
    http = Http(server.port)
    for path, body in (("/update", {"clientid": 1, "adds": [{"group": "busy", "data": "x"}]}),
                       ("/claim", {"clientid": 1, "groups": ["busy"], "duration": 60000}),
                       ("/v1/sessions", {}), ("/v1/queues", {"queue": "letters"})):
        assert http.send("POST", path, body)[0] == 200
    yield server
    http.close()
    status = server.stop()
    server.kill()
    assert status == 0, server.said


@pytest.fixture
def http(busy):
    one = Http(busy.port)
    yield one
    one.close()


def test_prometheus_finds_nothing_wrong(http):
    wait_until(lambda: {"drover_batch_jobs", "drover_queues"} <= Page(http).types.keys(), "what threads count")
    check_page(Page(http))


def test_every_metric_is_documented(http):
    wait_until(lambda: {"drover_batch_jobs", "drover_queues"} <= Page(http).types.keys(), "what threads count")
    check_document(Page(http))


@pytest.mark.slow
def test_on_an_ensemble(serve):
    http = Http(serve().leads().port)
    wait_until(lambda: call(http.port, "GET", "/readyz")[0] == 200, "ready")
    update(http, adds=[{"group": "far", "data": "x"}])
    wait_until(lambda: {"drover_batch_jobs", "drover_queues"} <= Page(http).types.keys(), "what threads count")
    page = Page(http)
    http.close()
    check_page(page)
    assert page.sum("drover_leader") == page.sum("drover_tasks_added_total", group="far") == 1
    assert page.sum("drover_tasks", group="far", state="available") == 1
    check_document(page, lacks=("drover_keeper_", "drover_journal_", "drover_snapshot", "drover_zookeeper_",
                                "drover_http_tls_"))


# The dashboard and the alerts.

RULES = ROOT / "contrib/prometheus/drover.rules.yml"
DASHBOARD = json.loads((ROOT / "contrib/grafana/drover.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def names_in(expression):
    """The metrics that an expression reads."""
    return set(re.findall(r"\b(?:drover|process)_\w+", re.sub(r'"[^"]*"', "", expression)))


def check_names(page, expressions):
    samples = {name for name, _ in page.values}
    for expression in expressions:
        names = names_in(expression)
        assert names and names <= samples, f"{names - samples} in {expression}"


def test_the_dashboard_reads_what_there_is(http):
    wait_until(lambda: {"drover_batch_jobs", "drover_queues"} <= Page(http).types.keys(), "what threads count")
    check_names(Page(http), [target["expr"] for panel in PANELS for target in panel["targets"]])


def test_the_dashboard_shows_everything(http):
    """But for totals that others of its panels contain."""
    shown = {re.sub("_(bucket|sum|count)$", "", name) for panel in PANELS for target in panel["targets"]
             for name in names_in(target["expr"])}
    assert {name for name, _, _ in ROWS} - shown == {
        "drover_audit_failures_total", "drover_dag_jobs", "drover_http_tls_failures_total", "drover_keeper_durable_zxid",
        "drover_task_claimed_total", "drover_task_last_id", "drover_zookeeper_connections_evicted_total",
        "drover_zookeeper_sessions_refused_total", "process_virtual_memory_bytes"}


def test_the_dashboard_is_well_formed(tmp_path):
    """Panels do not overlap, and Prometheus parses every expression."""
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    places = [(panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y) for panel in DASHBOARD["panels"]
              for x in range(panel["gridPos"]["w"]) for y in range(panel["gridPos"]["h"])]
    assert len(set(places)) == len(places) and max(x for x, _ in places) == 23
    rules = [{"record": f"dashboard:{number}", "expr": target["expr"].replace("$__rate_interval", "5m")}
             for number, target in enumerate(target for panel in PANELS for target in panel["targets"])]
    (tmp_path / "dashboard.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = promtool("check", "rules", str(tmp_path / "dashboard.yml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_alerts(http):
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    wait_until(lambda: {"drover_batch_jobs", "drover_queues"} <= Page(http).types.keys(), "what threads count")
    expressions = re.findall(r"expr: (?:>-\n)?((?:.*\n)+?) *(?:for|labels):", RULES.read_text())
    assert len(expressions) == RULES.read_text().count("alert: ")
    check_names(Page(http), [expression for expression in expressions if "up{" not in expression])


# What each action moves.

def refuse(http):
    assert call(http.port, "GET", "/groups", Authorization="Bearer wrong")[0] == 401


def session(http):
    assert http.send("POST", "/v1/sessions", {})[0] == 200


def update(http, **what):
    status, answer = http.send("POST", "/update", {"clientid": 7} | what)
    assert status == 200, answer
    return [task["id"] for task in answer["tasks"]]


def claim(http, group):
    status, answer = http.send("POST", "/claim", {"clientid": 7, "groups": [group], "duration": 60000})
    assert status == 200, answer
    return answer["tasks"][0]["id"]


def add(http):
    update(http, adds=[{"group": "moves", "data": "x"}] * 3)


def delay(http):
    update(http, adds=[{"group": "later", "data": "x", "timespec": -3600000}])


def claim_one(http):
    claim(http, "moves")


def finish(http):
    update(http, deletes=[claim(http, "moves")])


def delete(http):
    update(http, deletes=update(http, adds=[{"group": "moves", "data": "x"}]))


def refused_update(http):
    assert http.send("POST", "/update", {"clientid": 7, "deletes": [10 ** 15]})[0] == 409


def run(http, command, **more):
    dag = Dag(http.port)
    dag.wait(*dag.add(shell(command, **more)))


def run_true(http):
    run(http, "true")


def run_false(http):
    run(http, "false")


def run_too_long(http):
    run(http, "sleep 60", timeout=100)


def run_and_kill(http):
    dag = Dag(http.port)
    [node] = dag.add(shell("sleep 60"))
    wait_until(lambda: dag.state(node) == "running", "it runs")
    dag.kill(node)
    dag.wait(node)


def run_by_agent(http):
    """It asks twice to start, as after a lost answer: that is one run."""
    dag = Dag(http.port)
    dag.add(shell("true", group="far"))
    [(task, run_of)] = dag.claim(groups=["far"])
    dag.call("POST", f"/v1/nodes/{run_of['node']}/start", {"clientid": 7, "task": task["id"]})
    dag.call("POST", "/v1/agent/done", {"clientid": 7, "node": run_of["node"], "attempt": 1, "how": "exited",
                                        "status": 0})


def post(http):
    for queue in ("letters", http.send("POST", "/v1/queues", {})[1]["queue"]):
        assert http.send("POST", f"/v1/queues/{queue}/messages", {"messages": ["a", "b"]})[0] == 200


def dag_group(http):
    """A task in the group of the DAG, which has no label of its own."""
    update(http, adds=[{"group": "drover/run", "data": "x", "timespec": -3600000}])


MOVES = [
    (add, {'drover_tasks_added_total{group="moves"}': 3, 'drover_tasks{group="moves",state="available"}': 3,
           "drover_task_updates_total": 1, "drover_task_last_id": 3}),
    (delay, {'drover_tasks_added_total{group="later"}': 1, 'drover_tasks{group="later",state="owned"}': 1,
             'drover_tasks{group="later",state="available"}': 0}),
    (claim_one, {'drover_tasks_claimed_total{group="moves"}': 1, 'drover_tasks{group="moves",state="available"}': -1,
                 'drover_tasks{group="moves",state="owned"}': 1, "drover_task_claims_total": 1,
                 "drover_task_claimed_total": 1}),
    (finish, {'drover_tasks_finished_total{group="moves"}': 1, 'drover_tasks_deleted_total{group="moves"}': 0,
              'drover_tasks{group="moves"}': -1}),
    (delete, {'drover_tasks_deleted_total{group="moves"}': 1, 'drover_tasks_finished_total{group="moves"}': 0,
              'drover_tasks_added_total{group="moves"}': 1, 'drover_tasks{group="moves"}': 0}),
    (refused_update, {"drover_task_refusals_total": 1}),
    (run_true, {"drover_dag_runs_started_total": 1, 'drover_dag_runs_total{outcome="finished"}': 1,
                'drover_dag_run_seconds_count{outcome="finished"}': 1, 'drover_dag_nodes{state="finished"}': 1}),
    (run_false, {'drover_dag_runs_total{outcome="failed"}': 1, 'drover_dag_nodes{state="failed"}': 1}),
    (run_too_long, {'drover_dag_runs_total{outcome="timed_out"}': 1,
                    'drover_dag_run_seconds_bucket{outcome="timed_out",le="0.05"}': 0,
                    'drover_dag_run_seconds_bucket{outcome="timed_out",le="60"}': 1}),
    (run_and_kill, {'drover_dag_runs_total{outcome="killed"}': 1, 'drover_dag_nodes{state="killed"}': 1}),
    (run_by_agent, {"drover_dag_runs_started_total": 1, 'drover_dag_runs_total{outcome="finished"}': 1,
                    'drover_dag_run_seconds_count{outcome="finished"}': 1}),
    (post, {"drover_queue_messages_total": 4, "drover_queue_waiting_messages": 4, "drover_queues": 1,
            'drover_tasks_added_total{folded="queues"}': 4, 'drover_tasks_added_total{group="letters"}': 0}),
    (dag_group, {'drover_tasks_added_total{folded="dag"}': 1, 'drover_tasks{folded="others",state="owned"}': 1,
                 'drover_tasks_added_total{group="drover/run"}': 0}),
    (session, {"drover_http_sessions": 1, "drover_keeper_sessions": 1, "drover_journal_records_total": 1}),
    (session, {'drover_http_requests_total{route="/v1/sessions"}': 1,
               'drover_http_request_seconds_count{route="/v1/sessions"}': 1}),
    (refuse, {"drover_auth_failures_total": 1}),
]


def read(page, name):
    family, labels = re.fullmatch(r"(\w+)(?:\{(.*)\})?", name).groups()
    return page.sum(family, **dict(re.findall(r'(\w+)="([^"]*)"', labels or "")))


@pytest.mark.parametrize("action, moves", MOVES, ids=[action.__name__ for action, _ in MOVES])
def test_what_moves(http, action, moves):
    before = Page(http)
    action(http)
    wait_until(lambda: {name: read(Page(http), name) - read(before, name) for name in moves} == moves,
               f"{action.__name__}: {moves}")


def test_the_age_of_the_oldest(http):
    def age():
        return Page(http).sum("drover_tasks_oldest_seconds", group="aged")

    old, _ = update(http, adds=[{"group": "aged", "data": "x", "timespec": 1000}, {"group": "aged", "data": "x"}])
    assert age() > 10 ** 9
    update(http, deletes=[old])
    assert age() < DEADLINE_S
    wait_until(lambda: age() > 0, "it grows")
    update(http, deletes=[claim(http, "aged")])
    assert age() == 0


# Labels are bounded.

HOSTILE = ['quote"', "back\\slash", "line\nfeed", "\x1b[31m", "nul\0", "z" * 128, "z" * 1024, "\u202egnp", "{}", "\U0001f600" * 100,
           'a",group="b', "# HELP x y", " "]


def test_hostile_names(start):
    http = Http(start().port)
    update(http, adds=[{"group": name, "data": "x"} for name in HOSTILE])
    page = Page(http)
    check_page(page)
    assert page.sum("drover_tasks_added_total") == len(HOSTILE) == page.sum("drover_tasks")
    assert max(len(value.encode()) for _, has in page.values for name, value in has if name == "group") <= 2 * 128
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", page.text)
    http.close()


@pytest.mark.slow
def test_a_hundred_thousand_groups(start):
    """As few labels, no count goes backwards, and a page is as quick."""
    http = Http(start("--journal", "none").port)

    def add_many(first, last):
        for at in range(first, last, 5000):
            update(http, adds=[{"group": f"g{i}", "data": "x"} for i in range(at, min(at + 5000, last))])

    def counts(page):
        return {key: value for key, value in page.values.items() if key[0].endswith("_total")}

    def took(count=20):
        begin = Page(http).sum("drover_http_request_seconds_sum", route="/metrics")
        for _ in range(count):
            page = Page(http)
        return (page.sum("drover_http_request_seconds_sum", route="/metrics") - begin) / count

    add_many(0, 100)
    before, few = Page(http), took()
    add_many(100, 100000)
    after, many = Page(http), took()
    assert len(after.text) < 2 * len(before.text)
    assert after.sum("drover_tasks_added_total", folded="others") == 100000 - 100
    assert after.sum("drover_tasks") == after.sum("drover_tasks", state="available") == 100000
    assert all(counts(after)[key] >= value for key, value in counts(before).items())
    assert many < 4 * few + 0.005, (few, many)
    http.close()


def test_groups_of_an_earlier_run_are_named(start):
    """Before anything is counted of them."""
    server = start()
    http = Http(server.port)
    update(http, adds=[{"group": "kept", "data": "x"}])
    http.close()
    assert server.stop() == 0
    http = Http(start().port)
    assert Page(http).sum("drover_tasks", group="kept") == 1
    assert Page(http).sum("drover_tasks_added_total", group="kept") == 0
    http.close()


def test_the_journal(http):
    """Each change is in a round, each round takes time, and a thousand changes bring a snapshot."""
    before = Page(http)
    for _ in range(3):
        session(http)
    after = Page(http)
    for name in ("drover_journal_round_seconds_count", "drover_journal_round_seconds_sum",
                 "drover_journal_bytes_total", "drover_journal_syncs_total"):
        assert after.sum(name) > before.sum(name), name
    assert after.sum("drover_journal_full") == 0
    assert after.sum("drover_journal_replay_segments") >= 1
    for _ in range(1000):
        assert http.send("POST", "/update", {"clientid": 1, "adds": [{"group": "busy", "data": "x"}]})[0] == 200
    wait_until(lambda: Page(http).sum("drover_snapshots_total") > before.sum("drover_snapshots_total"), "a snapshot")
    wait_until(lambda: Page(http).sum("drover_snapshot_seconds_count") > before.sum("drover_snapshot_seconds_count"),
               "its duration")
    age = Page(http).sum("drover_snapshot_timestamp_seconds") - Page(http).sum("process_start_time_seconds")
    assert 0 <= age < DEADLINE_S


def test_a_snapshot_keeps_its_time(start):
    """Also after a restart."""
    first = start("--snapshot-every", 1)
    http = Http(first.port)
    for _ in range(200):  # transactions without nodes: there is no snapshot before there were as many as nodes
        session(http)
    wait_until(lambda: Page(http).sum("drover_snapshot_timestamp_seconds") > 0, "a snapshot")
    then = Page(http).sum("drover_snapshot_timestamp_seconds")
    http.close()
    assert first.stop() == 0
    second = Http(start("--snapshot-every", 1000000).port)
    assert abs(Page(second).sum("drover_snapshot_timestamp_seconds") - then) < DEADLINE_S
    second.close()


def test_the_process(busy, http):
    before = Page(http)
    assert before.sum("process_resident_memory_bytes") > 1e6
    assert before.sum("process_virtual_memory_bytes") > before.sum("process_resident_memory_bytes")
    assert before.sum("process_max_fds") > before.sum("process_open_fds") > 5
    assert before.sum("process_threads") > 3
    assert before.sum("drover_build_info") == 1
    more = [Http(busy.port) for _ in range(20)]
    for one in more:
        assert one.send("GET", "/healthz")[0] == 200
    after = Page(http)
    assert after.sum("process_open_fds") - before.sum("process_open_fds") == 20
    assert after.sum("process_cpu_seconds_total") > before.sum("process_cpu_seconds_total")
    assert after.sum("drover_loop_delay_seconds_count") > before.sum("drover_loop_delay_seconds_count")
    for one in more:
        one.close()
