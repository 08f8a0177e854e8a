import time

from workflow_parts import at_hand, discussion, kept_run, run, say

LOCK = {"type": "WorkflowLock", "workflowLockId": "night work"}


def lease(talk, name="night work"):
    return f"workflow:{talk.ref.scope}:{name}"


def test_a_lock_that_another_run_holds_ends_the_workflow_without_failure(space):
    talk = discussion(space)
    space.engine.leases.take(lease(talk), "another run", seconds=60)
    report = kept_run(space, talk, [say("before", returnToUser=True), LOCK, say("after")])
    assert (report.outcome, report.text) == ("ended", "before")
    assert report.why == "Another run holds the lock 'night work'."
    assert [step.output for step in report.steps] == ["before"]
    assert kept_run(space, talk, [LOCK, say("after")]).text == ""


def test_a_lock_is_held_until_the_run_ends_and_given_back(space):
    talk = discussion(space)
    leases, holders = space.engine.leases, []

    def note(*_):
        holders.append(leases.holder(lease(talk)))
        return False

    report = kept_run(space, talk, [LOCK, say("a"), say("b")], cancelled=note)
    assert report.outcome == "done"
    assert [holder is not None for holder in holders] == [False, True, True]
    assert leases.holder(lease(talk)) is None


def test_a_lock_is_given_back_when_the_run_fails(space):
    talk = discussion(space)
    kept_run(space, talk, [LOCK, say("a")], cancelled=iter([False, True]).__next__)
    assert space.engine.leases.holder(lease(talk)) is None


def test_each_discussion_has_locks_of_its_own_unless_the_node_says_otherwise(space):
    one, other = discussion(space, name="one"), discussion(space, name="other")
    space.engine.leases.take(lease(one), "another run", seconds=60)
    assert kept_run(space, other, [LOCK, say("a")]).outcome == "done"
    space.engine.leases.take("workflow::night work", "another run", seconds=60)
    assert kept_run(space, other, [{**LOCK, "perDiscussion": False}, say("a")]).outcome == "ended"


def test_a_run_that_lost_its_lock_ends_before_the_next_node(space):
    talk = discussion(space)
    leases = space.engine.leases

    def steal(*_):
        holder = leases.holder(lease(talk))
        if holder and holder != "a thief":
            leases.take(lease(talk), holder, seconds=0)
            leases.take(lease(talk), "a thief", seconds=60)
        return False

    # A short lease, so that its heart beats soon.
    nodes = [{**LOCK, "seconds": 0.03}, *[say("a")] * 150]
    report = kept_run(space, talk, nodes, cancelled=lambda: steal() or pause())
    assert (report.outcome, report.why) == ("ended", "This run lost the lock 'night work'.")
    assert leases.holder(lease(talk)) == "a thief"


def pause():
    time.sleep(0.02)
    return False


def test_messages_at_hand_need_no_lock():
    assert run([LOCK, say("a")], scene=at_hand("Hi")).text == "a"
