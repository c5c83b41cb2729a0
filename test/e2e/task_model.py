"""A model of the task store, and a crowd whose answers have to be its answers.

Many connections send random transactions over few tasks. Each that succeeds gives at least one new task, and
ids rise, so that the first id of its answer says when it happened. Replayed in this order, each must be one
that the model would have done, with the same result; and what is left must be what the model has left. Of what
was refused, each reason must have been true at some time. Times are now, or an hour away, so that nothing
hangs on the clock.
"""

import random
import re
import threading
import time

from task_support import Tasks

HOUR_MS = 3600 * 1000
GROUPS = 3


class Model:
    """What is there by id. A few dozen lines, and no cleverness."""

    def __init__(self):
        self.tasks, self.ended = {}, {}

    def may_change(self, clientid, task_id):
        task = self.tasks.get(task_id)
        return task is not None and (task["ownerid"] == clientid or not self.is_owned(task))

    @staticmethod
    def is_owned(task):
        return task["timespec"] > time.time() * 1000 + HOUR_MS / 2

    def end(self, task_id, when):
        del self.tasks[task_id]
        self.ended[task_id] = when

    def update(self, sent, answer):
        when, clientid, new = answer[0]["id"], sent["clientid"], iter(answer)
        named = [u["id"] for u in sent["updates"]] + sent["deletes"]
        assert len(set(named)) == len(named)
        assert all(self.may_change(clientid, i) for i in named), (sent, answer)
        assert all(i in self.tasks for i in sent["depends"]), (sent, answer)
        for asked in sent["adds"] + sent["updates"]:
            task = next(new)
            group = asked.get("group") or self.tasks[asked["id"]]["group"]
            assert (task["group"], task["data"], task["ownerid"]) == (group, asked["data"], clientid)
            assert self.is_owned(task) == (asked["timespec"] != 0)
        assert next(new, None) is None
        for task_id in named:
            self.end(task_id, when)
        self.tasks |= {task["id"]: task for task in answer}

    def claim(self, sent, answer):
        [task] = answer
        taken = [t for t in self.tasks.values() if t["data"] == task["data"]]
        assert len(taken) == 1 and not self.is_owned(taken[0]), (taken, task)
        assert taken[0]["group"] == task["group"] == sent["group"]
        assert task["ownerid"] == sent["clientid"] and self.is_owned(task)
        assert all(i in self.tasks for i in sent["depends"])
        self.end(taken[0]["id"], task["id"])
        self.tasks[task["id"]] = task


class Sender(threading.Thread):
    def __init__(self, crowd, clientid, seed, count):
        super().__init__(daemon=True)
        self.crowd, self.count = crowd, count
        self.random = random.Random(seed * 1000 + clientid)
        self.client = Tasks(crowd.port, clientid)
        self.number = 0

    def data(self):
        self.number += 1
        return f"{self.client.clientid}-{self.number}"

    def some(self, most):
        return self.random.sample(self.crowd.known[-20:], self.random.randint(0, most))

    def update(self):
        named = self.some(3)
        return "/update", {
            "adds": [{"group": self.crowd.group(self.random), "data": self.data(), "timespec": when}
                     for when in self.random.choices([0, 0, -HOUR_MS], k=self.random.randint(1, 2))],
            "updates": [{"id": i, "data": self.data(), "timespec": self.random.choice([0, -HOUR_MS])}
                        for i in named[:1]],
            "deletes": named[1:], "depends": self.some(1)}

    def claim(self):
        return "/claim", {"group": self.crowd.group(self.random), "duration": HOUR_MS,
                          "depends": self.some(1)}

    def run(self):
        try:
            for _ in range(self.count):
                path, body = self.random.choice([self.update, self.update, self.claim])()
                body["clientid"] = self.client.clientid
                status, answer = self.client.send("POST", path, body)
                self.crowd.note(path, body, status, answer)
        except Exception as error:  # pylint: disable=broad-except
            self.crowd.errors.append(error)
        finally:
            self.client.close()


class Crowd:
    def __init__(self, port, prefix, seed, senders, count):
        self.port, self.prefix = port, prefix
        self.known, self.done, self.refused, self.errors = [10 ** 15 + n for n in range(20)], [], [], []
        self.senders = [Sender(self, n + 1, seed, count) for n in range(senders)]

    def group(self, rng):
        return f"{self.prefix}-{rng.randrange(GROUPS)}"

    def groups(self):
        return [f"{self.prefix}-{n}" for n in range(GROUPS)]

    def note(self, path, sent, status, answer):
        if status == 200 and answer["tasks"]:
            self.done.append((path, sent, answer["tasks"]))
            self.known += [task["id"] for task in answer["tasks"]]
        elif status == 409:
            self.refused.append((sent, answer["errors"]))
        else:
            assert status == 200, (status, answer)

    def run(self):
        for sender in self.senders:
            sender.start()
        for sender in self.senders:
            sender.join()
        assert not self.errors, self.errors[0]

    def replay(self):
        """The model after all that was done, in the order in which it happened."""
        model = Model()
        for path, sent, answer in sorted(self.done, key=lambda one: one[2][0]["id"]):
            (model.update if path == "/update" else model.claim)(sent, answer)
        for sent, reasons in self.refused:
            for reason in reasons:
                self.check_reason(model, sent, reason)
        return model

    @staticmethod
    def check_reason(model, sent, reason):
        """It names a task that the request named, which was not there, or was somebody else's."""
        task_id = int(re.search(r"task (\d+)", reason)[1])
        named = [u["id"] for u in sent.get("updates", [])] + sent.get("deletes", []) + sent["depends"]
        assert task_id in named, (sent, reason)
        if "there is no task" in reason:
            assert task_id not in model.tasks or task_id in model.ended, reason
        else:
            owner = int(re.search(r"owned by client (\d+)", reason)[1])
            assert owner != sent["clientid"], reason
