"""PyTorch's own database of modules: a sample through both doors, and the tables of all of them."""

import pytest

torch = pytest.importorskip("torch")
modules = pytest.importorskip("modules")

from judging import known, status_of  # noqa: E402

QUICK = "nn.BatchNorm2d nn.Conv1d nn.CrossEntropyLoss nn.EmbeddingBag nn.GRUCell nn.LayerNorm nn.MultiheadAttention nn.ReplicationPad2d \
nn.TransformerEncoderLayer".split()  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", [False, True], ids=["compile", "device"])
@pytest.mark.parametrize("entry", [entry for entry in modules.entries() if entry.name in QUICK], ids=lambda entry: entry.name)
def test_a_module_is_eagers(entry, device):
    assert modules.judged(entry, 1, device) == ("passes", "")


@pytest.mark.parametrize("table", [modules.TABLE, modules.DEVICE_TABLE], ids=["compile", "device"])
def test_the_tables_of_all_modules_have_no_wrong_one(table):
    lines = known(table)
    statuses = [status_of(line) for line in lines.values()]
    assert set(lines) == {entry.name for entry in modules.entries()}
    assert "wrong" not in statuses and statuses.count("passes") >= 100
