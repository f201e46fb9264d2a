"""
Asking minions. This takes seconds, so it happens only for fields that say so, once for
all items and all of these fields.
"""

import functools

import salt.client

#: For each piece of data, the function that minions are asked to run.
FUNCTIONS = {
    "alive": "test.ping",
    "meminfo": "status.meminfo",
    "running": "saltutil.running",
}


def source(context):
    """
    Return a function that asks minions.
    """
    return functools.partial(ask, context.opts)


class Live:
    """
    What minions have answered.

    :ivar str jid: the job that asked them
    """

    def __init__(self, functions, answers, jid=None):
        self.functions = functions
        self.answers = answers
        self.jid = jid

    def of_minion(self, minion, key):
        """
        Return whether a minion has answered at all, and what.
        """
        answer = self.answers.get(minion)
        if not isinstance(answer, dict):
            return False, None
        return True, answer.get(self.functions[key])


def ask(opts, minions, keys):
    """
    Ask minions for what is wanted, in one job.

    :param list minions: their ids
    :param list keys: keys of :data:`FUNCTIONS`
    """
    functions = {key: FUNCTIONS[key] for key in ["alive", *keys] if key in FUNCTIONS}
    if not minions:
        return Live(functions, {})
    names = list(functions.values())
    with salt.client.get_local_client(mopts=opts) as client:
        found = client.cmd(
            minions,
            names,
            [[] for _ in names],
            tgt_type="list",
            full_return=True,
        )
    answers = {}
    jid = None
    for minion, entry in found.items():
        if isinstance(entry, dict) and isinstance(entry.get("ret"), dict):
            answers[minion] = entry["ret"]
            jid = entry.get("jid", jid)
    return Live(functions, answers, jid)
