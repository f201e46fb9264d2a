"""
What whoever asks for a pillar adds to it is in no pillar that others are served
"""

import pytest

import salt.pillar

OVERRIDE = {"role": "admin", "more": 1}


@pytest.fixture(params=[False, True])
def compile_pillar(master_opts, tmp_path, request):
    """
    Compile the pillar of a minion, with and without the pillar cache
    """
    (tmp_path / "top.sls").write_text("base: {'*': [role]}")
    (tmp_path / "role.sls").write_text(
        "role: user\nseen: {{ pillar.get('role', 'nothing') }}"
    )
    master_opts["pillar_roots"] = {"base": [str(tmp_path)]}
    master_opts.update(minion_data_cache=True, pillar_cache=request.param)

    def compile_pillar(**kwargs):
        pillar = salt.pillar.get_pillar(master_opts, {}, "web1", "base", **kwargs)
        return pillar.compile_pillar(), pillar.cached_pillar()

    return compile_pillar


@pytest.mark.parametrize("clean_cache", [False, True])
def test_override_is_not_stored(compile_pillar, clean_cache):
    answer, stored = compile_pillar(pillar_override=OVERRIDE, clean_cache=clean_cache)
    assert (answer["role"], answer["more"]) == ("admin", 1)
    assert not stored
    own, stored = compile_pillar()
    assert (own["role"], stored) == ("user", own)


def test_override_leaves_what_is_stored(compile_pillar):
    own, _ = compile_pillar()
    answer, stored = compile_pillar(pillar_override=OVERRIDE)
    assert (answer["role"], answer["more"]) == ("admin", 1)
    assert stored == own
