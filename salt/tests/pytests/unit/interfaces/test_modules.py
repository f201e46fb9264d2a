"""
The modules of Salt's tree against the interfaces that they declare
"""

import pytest

import salt.loader
from tests.pytests.unit.interfaces.providers import differences, load, providers

NAMES = "its own name for an argument that callers pass by position"
NOT_WRITTEN = "nobody wrote it for this platform"

# Differences between modules and interfaces, each with the reason why it is there. A
# line whose difference is gone fails.
KNOWN = {
    "aix_shadow": {"lacks info": NOT_WRITTEN, "lacks set_password": NOT_WRITTEN},
    "debian_ip": {
        "up has another default for 'iface_type' than None": "it is required",
        "down has another default for 'iface_type' than None": "it is required",
    },
    "linux_service": {
        "lacks enable": "there is no common way to start at boot",
        "lacks disable": "there is no common way to start at boot",
        "lacks enabled": "there is no common way to start at boot",
        "lacks disabled": "there is no common way to start at boot",
    },
    "mac_brew_pkg": {
        "lacks list_holds of Holds": NOT_WRITTEN,
        "upgrade_available takes no argument 'name'": NAMES,
    },
    "mac_group": {
        "adduser takes 'name' at another position": NAMES,
        "deluser takes 'name' at another position": NAMES,
    },
    "mac_portspkg": {"upgrade_available takes no argument 'name'": NAMES},
    "mac_service": {"lacks get_disabled of BootLists": NOT_WRITTEN},
    "mac_shadow": {
        "set_mindays takes no argument 'mindays'": NAMES,
        "set_maxdays takes no argument 'maxdays'": NAMES,
        "set_warndays takes no argument 'warndays'": NAMES,
        "set_expire takes no argument 'expire'": NAMES,
        "set_inactdays takes no argument 'inactdays'": NAMES,
    },
    "mac_system": {
        "lacks reboot": "it is called restart there",
        "lacks poweroff": "shutdown turns the computer off",
    },
    "mac_timezone": {
        "set_zone takes no argument 'timezone'": NAMES,
        "zone_compare takes no argument 'timezone'": NAMES,
    },
    "nixpkg": {"lacks upgrade_available": NOT_WRITTEN},
    "pacmanpkg": {
        "list_upgrades has another default for 'refresh' than True": "always was False",
        "upgrade has another default for 'refresh' than True": "always was False",
    },
    "pkgin": {
        "lacks upgrade_available": NOT_WRITTEN,
        "lacks owner of Files": NOT_WRITTEN,
        "normalize_name takes no argument 'name'": NAMES,
        "file_list takes no *packages": "it takes one package",
        "search takes no argument 'name'": NAMES,
    },
    "pkgng": {
        "lacks upgrade_available": NOT_WRITTEN,
        "lacks list_holds of Holds": "it is called list_locked there",
    },
    "rh_ip": {
        "up has another default for 'iface_type' than None": "it is required",
        "down has another default for 'iface_type' than None": "it is required",
    },
    "solaris_group": {
        "lacks adduser": NOT_WRITTEN,
        "lacks deluser": NOT_WRITTEN,
        "lacks members": NOT_WRITTEN,
    },
    "solaris_system": {
        "lacks get_computer_name": NOT_WRITTEN,
        "lacks set_computer_name": NOT_WRITTEN,
    },
    "solarisipspkg": {
        "upgrade has another default for 'refresh' than True": "always was False",
        "purge has another default for 'name' than None": "the name is required",
    },
    "system": {"set_computer_name takes no argument 'name'": NAMES},
    "win_file": {
        "mkdir takes no argument 'dir_path'": NAMES,
        "symlink takes no argument 'path'": NAMES,
    },
    "win_useradd": {
        "chgroups has another default for 'append' than False": "always was True",
        "delete takes no argument 'remove'": "it is called purge there",
    },
    "mac_sysctl": {
        "persist has another default for 'config' than None": "it is a path there",
    },
    "win_ip": {"lacks get_routes": NOT_WRITTEN},
    "zypperpkg": {
        "version_cmp takes no argument 'pkg1'": NAMES,
        "search takes no argument 'name'": NAMES,
    },
}


def test_all_are_found():
    """
    The tests below check something
    """
    assert len(providers()) == 66
    assert set(KNOWN) <= set(providers())


@pytest.mark.parametrize("name", providers())
def test_differences(name):
    """
    A module does what its interface says, except for what is listed
    """
    assert {text for _, text in differences(*load(name))} == set(KNOWN.get(name, ()))


@pytest.mark.parametrize(
    "mutant, message",
    (
        ({"version": None}, "lacks version"),
        ({"hold": None}, "lacks hold of Holds"),
        ({"remove": lambda pkgs=None, name=None: {}}, "remove takes no **kwargs"),
        ({"version": lambda names: ""}, "version takes no *names"),
        (
            {"upgrade_available": lambda package, **kwargs: True},
            "upgrade_available takes no argument 'name'",
        ),
        (
            {"upgrade_available": lambda other, name: True},
            "upgrade_available takes 'name' at another position",
        ),
        (
            {"list_pkgs": lambda versions_as_list=True, **kwargs: {}},
            "list_pkgs has another default for 'versions_as_list' than False",
        ),
        (
            {"remove": lambda name=None, pkgs=None, *, root, **kwargs: {}},
            "remove requires the argument 'root'",
        ),
        (
            {"frob": lambda: 1},
            "has frob, which is neither in the interface nor its own: correct its name,"
            " add it to own=[...], or let it begin with '_'",
        ),
        ({"download": None}, "has no download, which it names as its own"),
        ({"group_list": lambda: {}}, "has group_list, which it says that it lacks"),
    ),
)
def test_mutants(mutant, message):
    """
    The check sees each kind of difference
    """
    name = "zypperpkg" if "download" in mutant else "aptpkg"
    declaration, functions = load(name)
    functions = {**functions, **mutant}
    functions = {key: value for key, value in functions.items() if value is not None}
    assert message in {text for _, text in differences(declaration, functions)}


def test_providers(minion_opts, tmp_path):
    """
    The module that the configuration names is the only one of its virtual name
    """
    minion_opts["smi"] = True
    minion_opts["providers"] = {"pkg": "yumpkg"}
    minion_opts["grains"] = {"os_family": "Debian", "os": "Debian"}
    functions = salt.loader.minion_mods(minion_opts)
    assert functions["pkg.install"].func.__module__.endswith("yumpkg")
    message = "'pkg.autoremove' is not implemented by yumpkg."
    # pylint: disable-next=protected-access
    for loader in (functions, functions._dunder_salt):
        assert "pkg.autoremove" not in loader
        assert loader.missing_fun_string("pkg.autoremove") == message


def test_returns_are_not_checked(minion_opts, tmp_path):
    """
    file.makedirs returns None, and the state has made the folder by then
    """
    minion_opts["smi"] = True
    utils = salt.loader.utils(minion_opts)
    functions = salt.loader.minion_mods(minion_opts, utils=utils)
    states = salt.loader.states(minion_opts, functions, utils, {})
    path = tmp_path / "a" / "b"
    for state, name, arguments in (
        ("directory", path, {"makedirs": True}),
        ("touch", path / "text", {}),
        ("append", path / "text", {"text": "one line"}),
        ("symlink", path / "link", {"target": str(path / "text")}),
        ("copy", path / "copy", {"source": str(path / "text")}),
    ):
        found = states[f"file.{state}"](name=str(name), **arguments)
        assert found["result"] is True, found
        assert found["changes"]
    assert (path / "copy").read_text(encoding="utf-8") == "one line\n"
    assert (path / "link").is_symlink()
