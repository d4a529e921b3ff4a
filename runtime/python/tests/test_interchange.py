"""Memory of tensors lent through Python's buffer protocol: to `memoryview` and to numpy, which say what the elements are."""

import gc
import io

import numpy as np
import pytest
import warpweft as ww


def test_a_view_is_the_memory_of_the_tensor():
    x = ww.Tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).realize()
    view = memoryview(x)
    assert (view.shape, view.strides, view.format, view.readonly) == ((2, 3), (12, 4), "f", True)
    assert view.tolist() == x.tolist()
    one, other = np.frombuffer(x, np.float32), np.from_dlpack(x)
    assert one.tolist() == [1, 2, 3, 4, 5, 6] and not one.flags.writeable
    assert one.__array_interface__["data"][0] == other.__array_interface__["data"][0]
    assert bytes(x * 2) == (np.asarray(x) * 2).tobytes()


@pytest.mark.parametrize("name", "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split())
def test_types_are_those_of_numpy(name):
    wanted = np.array([[0, 1], [2, 3]]).astype(name)
    found = np.asarray(memoryview(ww.Tensor(wanted)))
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_strides_are_lent_to_who_takes_them():
    x = ww.arange(24).reshape(2, 3, 4).contiguous().realize()
    for tensor in (x.permute(2, 0, 1), x[:, ::2], x.flip([2]), x[1], x[1, 2, 3]):
        np.testing.assert_array_equal(np.asarray(memoryview(tensor)), np.asarray(tensor.tolist()))
    with pytest.raises(BufferError, match="contiguous"):
        np.frombuffer(x.permute(2, 0, 1), np.int64)


def test_a_view_outlives_its_tensor():
    view = memoryview(ww.Tensor([1.0, 2.0]) + 1)
    gc.collect()
    filler = [ww.full((2,), 9.0).contiguous().realize() for _ in range(50)]
    assert view.tolist() == [2.0, 3.0] and len(filler) == 50
    view.release()


def test_what_cannot_be_lent_is_an_error():
    with pytest.raises(BufferError, match="no code"):
        memoryview(ww.zeros(3, dtype=ww.bfloat16))
    with pytest.raises((BufferError, TypeError)):
        memoryview(ww.zeros(3))[0] = 1
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(b"123456789012").readinto(ww.zeros(3))
    assert memoryview(ww.zeros((0, 3))).tolist() == [] and memoryview(ww.Tensor(3)).tolist() == 3
