"""
The commands of the private socket: what workers hand over, and what administrators ask.
"""

import sqlite3

import salt.job_handler.database
import salt.job_handler.manager
import salt.job_handler.orders
import salt.payload


class Commands:
    """
    Each command is a method ``cmd_<name>`` that takes the request and returns the reply.

    :param Dispatcher dispatcher: publishes, and knows the queue and the journal
    :param Submissions submissions: takes jobs in
    :param Recovery recovery: knows what may not have been sent
    :param Maintenance maintenance: checks charges
    :param Report report: finds the words
    """

    def __init__(self, dispatcher, submissions, recovery, maintenance, report):
        self.dispatcher = dispatcher
        self.submissions = submissions
        self.recovery = recovery
        self.maintenance = maintenance
        self.report = report
        self.clock = dispatcher.clock
        self.journal = dispatcher.journal
        self.manager = dispatcher.manager
        self.cmd_reserve = submissions.reserve
        self.cmd_submit = submissions.submit

    async def handle(self, request):
        """
        Serve a request of the private socket.
        """
        try:
            return await getattr(self, f"cmd_{request['cmd']}")(request)
        except sqlite3.Error as exc:
            salt.job_handler.database.end_if_damaged(exc)
            raise

    async def cmd_status(self, request):
        return self.report.status(self.clock(), len(self.maintenance.rounds))

    async def cmd_words(self, request):
        return self.report.words(self.clock(), len(self.maintenance.rounds))

    async def cmd_order(self, request):
        priority, held = request.get("priority"), request.get("held")
        if priority is not None:
            salt.job_handler.orders.check_priority(priority)
        if held is not None:
            held = bool(held)
        count = self.manager.orders.give(request["jid"], priority, held)
        self._keep_orders()
        return {"minions": count}

    async def cmd_list(self, request):
        limit = request.get("limit")
        salt.job_handler.orders.check_limit(limit)
        return {"jobs": self.report.jobs(self.clock(), limit)}

    async def cmd_show(self, request):
        return self.report.show(request["jid"], self.clock())

    async def cmd_charges(self, request):
        return {"charges": self.report.charges(self.clock(), request.get("minion"))}

    async def cmd_cancel(self, request):
        jid, count = request["jid"], 0
        minions = request.get("minions")
        if minions is not None:
            minions = set(salt.payload.loads(minions))
        # a wave of it may be on its way at this moment, and fail
        async with self.dispatcher.ahead():
            self.recovery.recall(jid)
            now = self.clock()
            for action in self.manager.cancel(jid, now, minions):
                whole = isinstance(action, salt.job_handler.manager.Discard)
                gone = action.job.count if whole else len(action.excluded)
                if not await self.dispatcher.do(action):
                    raise OSError("the job can't be taken out, see the master's log")
                count += gone
            if minions is None:
                self.submissions.forbid(jid)
        self.dispatcher.wake()
        return {"cancelled": count}

    async def cmd_pause(self, request):
        orders = self.manager.orders
        seconds = request.get("seconds")
        if seconds is not None:
            salt.job_handler.orders.check_pause(seconds)
        orders.paused = bool(request["paused"])
        if orders.paused and seconds is not None:
            orders.paused_until = self.clock() + seconds
        self._keep_orders()
        return {"paused": orders.paused}

    def _keep_orders(self):
        self.journal.put_snapshot("orders", self.manager.orders.snapshot())
        self.dispatcher.wake()

    async def cmd_reconcile(self, request):
        self.maintenance.missed()
        return {"charges": len(self.manager.criteria.ledger)}
