"""What users of numpy expect of an array besides computing: copies, pickles, operators on both sides and in place, numpy's functions, names of types."""

import copy
import operator
import pickle

import numpy as np
import pytest
import warpweft as ww

X = np.arange(12, dtype=np.float32).reshape(3, 4)
TYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


@pytest.mark.parametrize("dtype", [*TYPES, "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_pickles_and_copies_are_equal_and_alone(dtype, shape):
    values = np.arange(6)[: int(np.prod(shape))].reshape(shape)
    tensor = ww.Tensor(values).astype(dtype)
    for found in (pickle.loads(pickle.dumps(tensor.T)).T, copy.copy(tensor), copy.deepcopy({"a": [tensor]})["a"][0]):
        assert (found.dtype, found.shape) == (tensor.dtype, tensor.shape)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(tensor))
        before = np.array(tensor)
        found[...] = 0
        np.testing.assert_array_equal(np.asarray(tensor), before)


IN_PLACE = "iadd isub imul ifloordiv imod ipow iand ior ixor ilshift irshift".split()


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("other", [2, np.array([[1, 2, 3]]), [[3, 1, 2]]], ids=["number", "array", "list"])
def test_operators_in_place_write_through_views(name, other):
    expected = np.arange(1, 13).reshape(3, 4)
    tensor = ww.Tensor(expected).realize()
    of_numpy, of_ours = expected[::2, 1:], tensor[::2, 1:]
    operate = getattr(operator, name)
    operate(of_numpy, np.asarray(other)), operate(of_ours, other)
    np.testing.assert_array_equal(tensor, expected)


def test_operators_in_place_keep_the_type():
    whole = ww.Tensor([1, 2, 3])
    for change in (lambda x: operator.itruediv(x, 2), lambda x: operator.imod(x, 1.5), lambda x: operator.ipow(x, 0.5)):
        with pytest.raises(ValueError, match="does not go into i64.*test_conventions.py"):
            change(whole)
    matrix = ww.Tensor(X[:, :3]).realize()
    row = matrix[1:]
    row @= X[:3, :3]
    expected = X[:, :3].copy()
    expected[1:] = expected[1:] @ X[:3, :3]
    np.testing.assert_allclose(matrix, expected)


@pytest.mark.parametrize("name", "add sub mul truediv floordiv mod pow lt le gt ge eq ne".split())
def test_operators_take_arrays_lists_and_numbers_on_both_sides(name):
    x = X + 1
    operate, tensor = getattr(operator, name), ww.Tensor(x)
    for other in (np.float32(2), np.array([1, 2, 3, 4], np.float32), [1.0, 2.0, 3.0, 4.0], (4, 3, 2, 1), 2, True, np.int64(3)):
        for found, expected in [(operate(tensor, other), operate(x, np.asarray(other))), (operate(other, tensor), operate(np.asarray(other), x))]:
            assert type(found) is ww.Tensor
            np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


def test_products_take_arrays_on_both_sides():
    a, b = X, X.T.copy()
    for found in (ww.Tensor(a) @ b, a @ ww.Tensor(b), ww.matmul(a, b), ww.Tensor(a).matmul(b.tolist())):
        assert type(found) is ww.Tensor
        np.testing.assert_allclose(found, a @ b)
    for number in (2, 2.0):
        with pytest.raises(TypeError):
            ww.Tensor(a) @ number


def test_functions_of_numpy_take_tensors_as_arrays():
    tensor = ww.Tensor(X)
    for function in (np.sum, np.mean, np.std, np.cumsum, np.argmax, np.transpose, np.ravel, np.median, np.exp, np.sort, np.unique, np.ptp):
        found = function(tensor)
        assert not isinstance(found, ww.Tensor)
        np.testing.assert_allclose(found, function(X), rtol=1e-6)
    np.testing.assert_array_equal(np.concatenate([tensor, X], axis=1), np.concatenate([X, X], axis=1))
    np.testing.assert_array_equal(np.where(tensor > 3, tensor, 0), np.where(X > 3, X, 0))
    np.testing.assert_array_equal(np.max(tensor, axis=0, keepdims=True), X.max(0, keepdims=True))


def test_integers_of_python_are_int64_where_nothing_else_decides():
    mask = ww.Tensor([True, False])
    for found in (mask + 1, 1 + mask, mask * 3, 2 - mask, mask << 2, ww.where(mask, 1, 0), ww.where(mask, True, 2)):
        assert found.dtype == ww.int64
    assert (mask + 1).tolist() == [2, 1] and ww.where(mask, 5, 7).tolist() == [5, 7]
    assert (mask + True).dtype == ww.bool_ and (mask + 1.5).dtype == ww.float32 and (ww.Tensor([1], dtype="int8") + 1).dtype == ww.int8
    large = ww.Tensor(np.array([2**63, 1], np.uint64))
    assert (large == 2**63).tolist() == [True, False] and (large < 2**64 - 1).tolist() == [True, True]


def test_names_of_types_are_numpys():
    for name in TYPES:
        dtype = np.dtype(name)
        for given in (name, dtype, dtype.str, dtype.str[1:], dtype.type):
            assert ww.Tensor([1]).astype(given).dtype.name == name, given
        assert (f"dtype={name}" in repr(ww.Tensor([1]).astype(name))) == (name not in ("int64", "float32", "bool"))
    with pytest.raises(TypeError, match="complex64 is no type of elements"):
        ww.Tensor([1]).astype(np.complex64)


def test_small_things_of_an_array():
    tensor = ww.Tensor(X)
    assert (tensor.nbytes, tensor.itemsize, tensor.numel(), tensor.dim(), tensor.device) == (48, 4, 12, 2, "CPU")
    assert f"{ww.Tensor(2.5):.2f}" == "2.50" and f"{ww.Tensor([7])[0]:03d}" == "007" and f"{tensor}" == repr(tensor)
    with pytest.raises(TypeError, match="has axes"):
        f"{tensor:.2f}"
    assert 5.0 in tensor and 50 not in tensor
    np.testing.assert_array_equal(round(tensor / 3, 1), np.round(X / 3, 1))
    np.testing.assert_array_equal(round(tensor * 7, -1), np.round(X * 7, -1))
    for found, expected in zip((*divmod(tensor, 5), *divmod(100, tensor + 1)), (*divmod(X, 5), *divmod(100, X + 1))):
        np.testing.assert_array_equal(found, expected)
    for found, expected in [(tensor.ravel(), X.ravel()), (tensor.swapaxes(0, 1), X.T), (tensor.transpose(), X.T), (tensor.mT, X.mT)]:
        np.testing.assert_array_equal(found, expected)
    cube = np.arange(24).reshape(2, 3, 4)
    for axes in [(), (None,), (2, 0, 1), ((1, 2, 0),)]:
        np.testing.assert_array_equal(ww.Tensor(cube).transpose(*axes), cube.transpose(*axes))
    assert [part.shape for part in tensor.split(2)] == [(2, 4), (1, 4)] and [part.shape for part in tensor.split([1, 3], axis=-1)] == [(3, 1), (3, 3)]
    assert [part.shape for part in tensor.split(3, axis=1)] == [(3, 3), (3, 1)]
    np.testing.assert_array_equal(tensor[(0, 2), (1, 3)], X[(0, 2), (1, 3)])
    np.testing.assert_array_equal(ww.Tensor(range(2, 8, 2)), np.arange(2, 8, 2))


def test_running_sums_without_an_axis_are_of_all_elements():
    for name in ("cumsum", "cumprod"):
        for x in (X + 1, (X % 3).astype(np.int8), X > 3, np.array([2**31 - 1, 5], np.int32)):
            expected = getattr(np, name)(x)
            np.testing.assert_allclose(np.asarray(getattr(ww, name)(x)), expected, rtol=1e-6)
            np.testing.assert_allclose(np.asarray(getattr(ww.Tensor(x), name)(-1)), getattr(np, name)(x, axis=-1), rtol=1e-6)


def test_a_type_of_sums_is_that_of_the_elements():
    x = np.full((2, 3), 1.6, np.float32)
    for name in ("sum", "prod", "mean", "cumsum", "cumprod"):
        for dtype in ("int32", "float64", "float16"):
            found, expected = getattr(ww.Tensor(x), name)(dtype=dtype), getattr(x.astype(dtype), name)(dtype=dtype)
            assert found.dtype.name == dtype
            np.testing.assert_allclose(np.asarray(found), expected, rtol=2e-3)
    np.testing.assert_allclose(np.asarray(ww.Tensor(X).std(axis=1, ddof=1)), X.std(axis=1, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(ww.var(X, ddof=1)), X.var(ddof=1), rtol=1e-6)


def test_what_is_wrong_says_so():
    tensor = ww.Tensor(X)
    with pytest.raises(ValueError, match=r"12 elements is neither true nor false: ask for any\(\) or all\(\)"):
        bool(tensor)
    with pytest.raises(ValueError, match="0 elements is neither"):
        bool(ww.zeros(0))
    with pytest.raises(TypeError, match="without axes"):
        iter(ww.Tensor(1.0))
    with pytest.raises(OverflowError):
        ww.Tensor(2**70)
    with pytest.raises(ValueError, match="parts of length 0"):
        tensor.split(0)
    with pytest.raises(ValueError, match="axis 5 is out of range"):
        tensor.split(2, axis=5)
    with pytest.raises(ValueError, match="broadcast"):
        tensor[0] = [1, 2]
    with pytest.raises(TypeError, match="expected a tensor, not int"):
        tensor.gather(0, 1)


def test_arrays_keep_their_axes_and_numbers_of_numpy_their_types():
    for array in (np.array([5]), np.array([[True]]), np.array([2.5]), np.array(7), np.int16(-3), np.float64(0.5), np.bool_(True)):
        found = ww.Tensor(array)
        assert (found.shape, found.dtype.name) == (array.shape, array.dtype.name)
        assert found.tolist() == array.tolist()
    assert (ww.Tensor(1.0) + np.array([2.0], np.float32)).shape == (1,)
    assert (ww.Tensor([1.0]) * np.float64(2)).dtype == ww.float32 and (ww.Tensor([1]) + np.int8(1)).dtype == ww.int64
    np.testing.assert_array_equal(ww.Tensor(X)[np.array([False, False, False])], X[np.array([False, False, False])])
    np.testing.assert_array_equal(ww.Tensor(X)[:1][np.array([False])], X[:1][np.array([False])])


CUBE = np.arange(24).reshape(2, 3, 4)
APART = [(0, slice(None), [1, 0]), ([1], slice(1, None), -1), (0, None, [1, 2]), (1, ..., [3, 3]), (slice(None), 1, [1, 2]), (0, [2, 1], slice(2)), ([0, 1], 2, 1)]


@pytest.mark.parametrize("index", APART, ids=str)
def test_numbers_apart_from_arrays_put_axes_where_numpy_does(index):
    tensor, expected = ww.Tensor(CUBE), CUBE.copy()
    np.testing.assert_array_equal(np.asarray(tensor[index]), CUBE[index])
    value = np.arange(CUBE[index].size).reshape(CUBE[index].shape) + 100
    expected[index] = value
    tensor[index] = ww.Tensor(value)
    np.testing.assert_array_equal(tensor, expected)
    with pytest.raises(IndexError, match="index 9 is out of range for axis 0"):
        tensor[9, :, [0]]


def test_compiled_functions_take_arrays_in_place_of_tensors():
    n = ww.Var("n", 1, 8)
    product = ww.jit(lambda x, w: (x @ w).sum(0), lengths={"x": {0: n}})
    for count in (2, 5):
        x, w = np.arange(count * 3, dtype=np.float32).reshape(count, 3), np.eye(3, dtype=np.float32)
        for given in ((x, w), (ww.Tensor(x), w), (x, ww.Tensor(w))):
            np.testing.assert_allclose(product(*given), x.sum(0))
    assert len(product.programs) == 1
    nested = ww.jit(lambda tree, k=1: {"sum": tree["x"][0] + tree["y"] * k})
    for k in (1, 2, np.int64(2)):
        found = nested({"x": [X], "y": ww.Tensor(X)}, k=k)["sum"]
        np.testing.assert_allclose(found, X * (1 + k))
