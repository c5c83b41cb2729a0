"""The routes of batches and jobs, for tests: one connection per thread, JSON both ways."""

from conftest import Http, wait_until

from conftest import errors


class Api(Http):
    def __init__(self, port, timeout=90):
        super().__init__(port, timeout)

    def __call__(self, method, path, body=None):
        """The body of an answer that must be 200."""
        status, answer = self.send(method, path, body)
        assert status == 200, f"{method} {path} {body}: {status} {answer}"
        return answer

    def refuse(self, wanted, method, path, body=None):
        """The one error of an answer that must have that status."""
        status, answer = self.send(method, path, body)
        assert status == wanted, f"{method} {path} {body}: {status} {answer}"
        [line] = errors(answer)
        return line

    def session(self, timeout=10000):
        return self("POST", "/v1/sessions", {"timeout": timeout})["session"]

    def batch(self, **submission):
        return self("POST", "/v1/batches", {"submission": submission})["batch"]

    def job(self, batch, priority=50, **configuration):
        spec = {"configuration": configuration, "priority": priority}
        return self("POST", f"/v1/batches/{batch}/jobs", spec)["job"]

    def jobs(self, batch, count, priority=lambda n: 50):
        specs = [{"configuration": {}, "priority": priority(n)} for n in range(count)]
        return self("POST", f"/v1/batches/{batch}/jobs", {"jobs": specs})["jobs"]

    def move(self, job, state="next", **more):
        return self("PUT", f"/v1/jobs/{job}/state", {"state": state, **more})["state"]

    def drive(self, job):
        while (state := self.move(job)) != "Completed":
            assert state

    def state_of(self, kind, name):
        return next(iter(self("GET", f"/v1/{kind}/{name}").values()))["state"]

    def wait_state(self, kind, name, wanted, seconds=30):
        def state():
            found = self.state_of(kind, name)
            return found if found in wanted else None

        return wait_until(state, lambda: f"{name} is {self.state_of(kind, name)}, not {wanted}",
                          seconds)
