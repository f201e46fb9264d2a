"""Nodes: the minions that have a key."""

import functools

from saltext.query import compare, dynamic
from saltext.query.field import read
from saltext.query.item import Item, ItemType, address, grain
from saltext.query.kinds import MISSING_UNAVAIL

#: Interfaces that have fields of their own.
NICS = 8


class Node(Item):
    """
    :ivar str name: the minion's id
    """

    @functools.cached_property
    def grains(self):
        """What the query needs of its grains, or None."""
        return self.document("grains", self.name)

    def live(self, key):
        """Return what the minion has answered, or why there is no answer. Only minions
        with an accepted key can be asked.
        """
        if self.context.keys[self.name] != "accepted":
            return MISSING_UNAVAIL
        return super().live(key)

    def mtotal(self):
        value = grain(self.grains, "mem_total")
        # some platforms report it with a fraction
        return int(value) if isinstance(value, float) and value - value == 0 else value

    def online(self):
        return self.context.source("presence").is_connected(self.grains)


def _items(context, _names):
    for name in sorted(context.keys, key=compare.text_key):
        yield Node(context, name, name)


def _last_job(place):
    what, _, key = place.partition(".")
    never = {"result": "never"} if what == "highstate" else {}
    return lambda node: (
        node.context.source("last_jobs")[what].get(node.name, never).get(key)
    )


def _address(number):
    return lambda node: address(node.grains, number)


_FIELDS = """
name                         Node          text      -                      Minion identifier
key_state                    KeyState      text      -                      State of the minion's key: accepted, pending, rejected or denied
online                       Online        bool      presence               Whether an address of the minion is connected to this master, if that can be told
alive                        Alive         bool      live:alive             Whether the minion answers now; asks the minion
seen_ts,seen                 Seen          timestamp mtime:grains           Time at which the minion last sent its grains
mine_ts                      MineTime      timestamp mtime:mine             Time at which the minion last wrote to the mine
os                           OS            text      grains:os              Operating system name
os_family                    OSFamily      text      grains:os_family       Operating system family
os_release,osrelease         OSRelease     text      grains:osrelease       Operating system release
os_finger,osfinger           OSFinger      text      grains:osfinger        Operating system name and major release
kernel                       Kernel        text      grains:kernel          Kernel name
kernel_release,kernelrelease KernelRelease text      grains:kernelrelease   Kernel release
arch,cpuarch                 Arch          text      grains:cpuarch         Processor architecture
ctotal,num_cpus              CTotal        number    grains:num_cpus        Number of logical processors
cpu_model                    CPUModel      text      grains:cpu_model       Processor model
mtotal,mem_total             MTotal        unit      grains:mem_total       Total amount of memory, in MiB
virtual                      Virtual       text      grains:virtual         Type of virtualisation, or physical
product,productname          Product       text      grains:productname     Hardware product
manufacturer                 Manufacturer  text      grains:manufacturer    Hardware manufacturer
serial,serialnumber          Serial        text      grains:serialnumber    Serial number
uuid                         UUID          text      grains:uuid            UUID of the system
fqdn                         FQDN          text      grains:fqdn            Fully qualified domain name
salt_version,saltversion     SaltVersion   text      grains:saltversion     Salt version of the minion
python_version,pythonversion PythonVersion other     grains:pythonversion   Python version of the minion
init                         Init          text      grains:init            Init system
timezone                     TimeZone      text      grains:timezone        Time zone
roles                        Roles         other     grains:roles           Roles given by a grain
ip4_list                     IPv4List      other     grains:ipv4            IPv4 addresses
ip6_list                     IPv6List      other     grains:ipv6            IPv6 addresses
mfree                        MFree         unit      live:meminfo           Memory available now, in MiB; asks the minion
load                         Load          float     live:loadavg           Load of the last minute; asks the minion
dfree                        DFree         unit      live:disk              Room left on the root file system, in MiB; asks the minion
uptime                       Uptime        number    live:uptime            Seconds since the system was started; asks the minion
vinst_cnt                    Instances     number    mine:virt.vm_info      Number of instances that the minion manages
job_cnt                      RunningJobs   number    live:running           Number of jobs that the minion runs now; asks the minion
last_job                     LastJob       text      last_jobs:job.jid      Last job for the minion
last_fun                     LastFunction  text      last_jobs:job.fun      Its function
last_ts                      LastTime      timestamp last_jobs:job.start    Its time
last_result                  LastResult    text      last_jobs:job.result   Its result: success, failed, or missing if it has not returned
highstate                    Highstate     text      last_jobs:highstate.result Last highstate: success, failed, missing (no return) or never
highstate_ts                 HighstateTime timestamp last_jobs:highstate.start Time of the last highstate
highstate_job                HighstateJob  text      last_jobs:highstate.jid Job identifier of the last highstate
"""
_NIC = "nic{0}.ip Nic.IP/{0} text grains:ip4_interfaces First IPv4 address of interface {0}, counted without loopback\n"

_KNOWN = read(
    _FIELDS + "".join(map(_NIC.format, range(NICS))),
    Node,
    {
        "name": lambda node: node.name,
        "key_state": lambda node: node.context.keys[node.name],
        "vinst_cnt": lambda node: node.context.source("resources").count(node.name),
        "grains:": lambda key: lambda node: grain(node.grains, key),
        "live:": lambda key: lambda node: node.live(key),
        "mtime:": lambda bank: lambda node: node.context.documents.updated(
            bank, node.name
        ),
        "last_jobs:": _last_job,
        **{f"nic{number}.ip": _address(number) for number in range(NICS)},
    },
    needs={"presence": ("presence", "grains:ipv4", "grains:ipv6")},
    name={"host": True},
    uptime={"span": True},
)


def item_type():
    return ItemType(
        "node",
        "Minions that have a key at this master",
        _KNOWN,
        _items,
        usual=("name", "key_state", "os", "os_release", "mtotal", "seen_ts"),
        dynamic=dynamic.find,
    )
