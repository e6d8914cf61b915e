"""Arrays of other libraries: the same numbers wherever X is, what single precision costs, what needs NumPy."""

import gc
import sys
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from laws.test_kernel_laws import KERNELS
from reference.compare import error

from sparse_pep.blocks import clustered_blocks
from sparse_pep.features import (
    Derivative,
    Fourier,
    GaussianBlur,
    InducingPoints,
    Mixture,
    Wavelet,
)
from sparse_pep.kernels import (
    Constant,
    Linear,
    Matern12,
    Matern32,
    SquaredExponential,
    White,
)
from sparse_pep.likelihoods import Gaussian, Poisson, Probit, StudentT
from sparse_pep.means import ConstantMean, LinearMean
from sparse_pep.model import (
    Model,
    model_bounds,
    model_evidence,
    model_gradient,
    model_left_out,
    model_predict,
)
from sparse_pep.multiclass import Softmax
from sparse_pep.numerics import devices as arrays
from sparse_pep.numerics.devices import (
    COMPUTING_ON_DEVICE,
    COPIES,
    as_numpy,
    device_copy,
    device_of,
    namespace_of,
    on_device,
    place_named,
    require_device_inputs,
    require_host,
    to_device,
    unit_roundoff,
)
from sparse_pep.numerics.linalg import Factor, factorise, solve_lower
from sparse_pep.numerics.threads import chunk_slices, map_chunks, one_blas_thread
from sparse_pep.shards import Piece
from sparse_pep.stochastic import train_stochastic
from sparse_pep.streaming import remember
from sparse_pep.training import train

LIBRARIES = [name for name in ("array_api_strict", "torch", "jax") if find_spec(name)]
every_library = pytest.mark.parametrize("library", LIBRARIES)


def put(values, library, dtype="float64"):
    """A copy of `values` in an array of the library."""
    if library != "array_api_strict":
        return place_named(library, dtype).put(np.array(values, dtype=float))
    xp = import_module(library)
    return xp.asarray(np.array(values, dtype=float), dtype=getattr(xp, dtype))


RNG = np.random.default_rng(0)
X, Z, NEW = RNG.normal(size=(50, 3)), RNG.normal(size=(8, 3)), RNG.normal(size=(11, 3))
for part in (X, Z, NEW):  # codes for the kernels that need them
    part[:, 2] = np.arange(len(part)) % 3
F = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
Y = F + 0.1 * RNG.normal(size=50)
ARD = SquaredExponential(1.3, [0.8, 1.7, 2.6])
LIKELIHOODS = {
    "probit": (Probit(), np.sign(F)),
    "poisson": (Poisson(), np.round(np.exp(F))),
    "softmax": (Softmax(3), (F > 0).astype(int) + (F > 0.7)),
    "student": (StudentT(3.0, 0.1), np.where(np.arange(50) % 10 == 0, 4.0, F)),
}


def same(ours, theirs, tolerance=1e-10):
    """Whether two gradients, or two tuples of arrays, agree, in units of the largest number."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        assert all(type(value) is np.ndarray and value.shape == theirs[key].shape for key, value in ours.items())
        ours, theirs = (np.concatenate([v.ravel() for v in part.values()]) for part in (ours, theirs))
        return error(ours, theirs, np.max(np.abs(theirs))) < tolerance
    assert all(type(value) is np.ndarray for value in ours)
    return all(error(a, b, np.max(np.abs(b))) < tolerance for a, b in zip(ours, theirs, strict=True))


def everywhere(model, library, y=Y, extras=(), inputs=X, power=0.5, jitter=1e-6, tolerance=1e-10, **options):
    """The fits on the host and on a device, whose evidence, gradient and predictions are the same."""
    fits, gradients, predicted = [], [], []
    for own, new in ((inputs, NEW), (put(inputs, library), put(NEW, library))):
        fit, gradient = model_gradient(model, Piece(0, own, y, *extras), power, jitter, **options)
        fits, gradients = [*fits, fit], [*gradients, gradient]
        predicted.append(model_predict(model, fits[0].posteriors, new, chunk_size=4))
    host, device = fits
    assert error(device.log_evidence, host.log_evidence) < 1e-10 and same(gradients[1], gradients[0], tolerance)
    assert type(device.dff) is np.ndarray and error(device.dff, host.dff, np.max(model.kernel.diag(inputs))) < 1e-10
    assert same(predicted[1], predicted[0])
    return host, device


@every_library
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_every_kernel_has_the_same_evidence_gradient_and_predictions(kernel, library):
    """In chunks of unequal size, with V kept and not, the long way and the short one."""
    for power, chunk_size in ((0.5, 17), (0.0, None)):
        everywhere(Model(kernel, InducingPoints(Z), Gaussian(0.1)), library, power=power, chunk_size=chunk_size)


@every_library
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_kind_of_likelihood_has_the_same_fixed_point_gradient_and_predictions(name, library):
    likelihood, y = LIKELIHOODS[name]
    model, there = Model(ARD, InducingPoints(Z), likelihood), Piece(0, put(X, library), y)
    host, device = everywhere(model, library, y, jitter=1e-8, chunk_size=17)
    assert device.converged and np.any(device.site_precision < 0.0) == (name == "student")
    assert same(model_left_out(model, device, there, 0.5), model_left_out(model, host, Piece(0, X, y), 0.5), 1e-9)
    (shard,) = model_evidence(model, there, 0.5, 1e-8, chunk_size=17).shards.local
    assert len(shard.kept.chunks) == 3 and all(on_device(V) for V, _ in shard.kept.chunks.values())  # matrices stay on the device


@every_library
@pytest.mark.parametrize("mean", [ConstantMean([0.3, -0.1]), LinearMean([0.3, -0.1], 0.1 * Z[:3, :2])])
def test_means_outputs_weights_and_known_variances(mean, library):
    there, y = put(X, library), np.column_stack([Y, Y**2])
    model = Model(ARD, InducingPoints(Z), Gaussian(0.1), mean)
    extras = (RNG.uniform(0.5, 2.0, size=50), RNG.uniform(0.0, 0.3, size=50))
    host, device = everywhere(model, library, y, extras, jitter=0.0)
    pieces = Piece(0, X, y), Piece(0, there, y)
    assert same(*(model_left_out(model, fit, piece, 0.5) for fit, piece in zip((host, device), pieces)))
    assert same(*([np.array(model_bounds(model, piece))] for piece in pieces))
    again = model_evidence(model, Piece(0, there, put(y, library), *extras), 0.5)  # targets on a device are copied to the host
    assert error(again.log_evidence, host.log_evidence) < 1e-10


@every_library
def test_far_points_and_points_on_top_of_each_other(library):
    """Squares by differences where an expansion loses digits; the kink of Matérn ½ at distance 0."""
    far = 3e3 * X
    for kernel in (SquaredExponential(1.3, [2e3, 1e2, 4e3]), Matern12(1.3, 1024.0), KERNELS["periodic"]):
        everywhere(Model(kernel, InducingPoints(far[:8]), Gaussian(0.1)), library, inputs=far, tolerance=1e-9)


@every_library
@pytest.mark.parametrize("transpose", [False, True])
def test_triangles_that_are_too_flat_to_multiply_by_are_solved_with(transpose, library):
    B = np.random.default_rng(1).normal(size=(6, 40))
    K = np.diag(10.0 ** -np.arange(6.0) * 2) + 0.05 * 10.0 ** -np.add.outer(np.arange(6.0), np.arange(6.0))
    flat = factorise(K @ K)
    flat = Factor(flat.lower, None, 0.0)
    solved = as_numpy(solve_lower(flat, put(B, library), transpose))
    expected = solve_lower(flat, B, transpose)
    assert np.max(np.abs(solved / expected - 1.0)) < 1e-12  # digit by digit, over ten decades
    good = factorise(np.eye(6) + 0.1)
    assert good.inverse is not None
    assert same([as_numpy(solve_lower(good, put(B, library), transpose))], [solve_lower(good, B, transpose)], 1e-14)


@every_library
def test_training_reaches_the_same_optimum(library, tmp_path):
    start = Model(SquaredExponential(1.0, [1.0, 1.0, 1.0]), InducingPoints(Z[:4]), Gaussian(0.3))
    host = train(start, Piece(0, X, Y), max_iter=30)
    device = train(start, Piece(0, put(X, library), Y), max_iter=30, checkpoint=tmp_path / "device.zip")
    assert device.log_evidence == pytest.approx(host.log_evidence, abs=1e-4) and host.log_evidence > host.history[0] + 5
    resumed = train(start, Piece(0, X, Y), max_iter=30, checkpoint=tmp_path / "device.zip")  # the same data, wherever they live
    assert resumed.log_evidence == pytest.approx(device.log_evidence, abs=1e-6)
    labels = train(Model(start.kernel, start.features, Probit()), Piece(0, put(X, library), np.sign(F)), max_iter=5)
    expected = train(Model(start.kernel, start.features, Probit()), Piece(0, X, np.sign(F)), max_iter=5)
    assert labels.log_evidence == pytest.approx(expected.log_evidence, abs=1e-4)


# Loss in single precision: (lengthscale, jitter) ↦ bounds on the energy per datum in nats, on the gradient in units
# of its largest entry, and on predicted means and variances. The condition number of the factor of Kuu rises downwards.
SINGLE = {(0.5, 1e-6): (3e-7, 2e-6, 5e-6), (1.5, 1e-6): (1e-5, 3e-5, 3e-5), (4.0, 1e-4): (3e-4, 5e-4, 1e-3)}


@every_library
@pytest.mark.parametrize("kind", [SquaredExponential, Matern32])
def test_single_precision_loses_what_the_notebook_says(kind, library):
    rng = np.random.default_rng(2)
    inputs, points = rng.uniform(0.0, 10.0, size=(400, 2)), rng.uniform(0.0, 10.0, size=(30, 2))
    y = np.sin(inputs[:, 0]) + 0.1 * rng.normal(size=400)
    there = put(inputs, library, "float32")
    for (lengthscale, jitter), bounds in SINGLE.items():
        model = Model(kind(1.0, lengthscale), InducingPoints(points), Gaussian(0.01))
        host, gradient = model_gradient(model, Piece(0, inputs, y), 0.5, jitter)
        device, device_gradient = model_gradient(model, Piece(0, there, y), 0.5, jitter)
        losses = [abs(device.log_evidence - host.log_evidence) / 400]
        values = [np.concatenate([v.ravel() for v in g.values()]) for g in (device_gradient, gradient)]
        losses.append(error(*values))
        on_the_host, predicted = (model_predict(model, host.posteriors, place) for place in (inputs, there))
        losses.append(max(error(a, b) for a, b in zip(predicted, on_the_host)))
        assert all(0.0 < loss < bound for loss, bound in zip(losses, bounds)), (losses, bounds)
    model, y = Model(kind(1.3, [0.8, 1.7, 2.6]), InducingPoints(Z), Probit()), np.sign(F)
    host, device = (model_evidence(model, Piece(0, own, y), 0.5, 1e-6) for own in (X, put(X, library, "float32")))
    assert device.converged and device.n_sweeps <= host.n_sweeps + 2
    assert abs(device.log_evidence - host.log_evidence) < 1e-5 * 50


@every_library
def test_matrices_are_copied_once_and_forgotten_with_the_original(library):
    there, matrix = put(X, library), np.eye(3)
    gc.collect()
    before = len(COPIES)
    copy = device_copy(matrix, there)
    assert device_copy(matrix, there) is copy and len(COPIES) == before + 1
    assert device_copy(np.eye(3), there) is not copy
    gc.collect()
    assert len(COPIES) == before + 1
    single = device_copy(matrix, put(X, library, "float32"))
    assert [unit_roundoff(one) for one in (single, copy, matrix)] == [2.0**-24, 2.0**-53, 2.0**-53]
    del matrix
    gc.collect()
    assert len(COPIES) == before


@every_library
def test_there_and_back(library):
    values = np.array([1.0 / 3.0, 1e-30, -7.0])
    double, single = (to_device(values, put(X, library, dtype)) for dtype in ("float64", "float32"))
    np.testing.assert_array_equal(as_numpy(double), values)
    np.testing.assert_array_equal(as_numpy(single), values.astype(np.float32))
    assert as_numpy(single).dtype == np.float64 and to_device(double, double) is double
    values[0] = 5.0  # what went there is a copy, and so is what came back
    assert as_numpy(double)[0] == 1.0 / 3.0
    back = as_numpy(double)
    back[0] = 6.0
    assert as_numpy(double)[0] == 1.0 / 3.0
    np.testing.assert_array_equal(as_numpy(to_device(np.eye(3)[::-1, ::-1], double)), np.eye(3))
    assert to_device(np.float64(2.0), double).shape == ()


@every_library
def test_chunks_on_a_device_are_large_and_taken_one_after_the_other(library):
    seen = []

    def cut(X):
        with device_of(X):
            slices = chunk_slices(1_000_000, 100)
            seen.append(COMPUTING_ON_DEVICE.get())
            return slices, map_chunks(len, slices)

    with one_blas_thread() as hold:
        hold.threads = 2
        slices, shares = cut(put(X, library))
        assert [rows.stop - rows.start for rows in slices[:2]] == [300_000, 300_000] and shares == [4]
        slices, shares = cut(X)
        assert len(slices) > 40 and len(shares) == 2
    assert seen == [True, False] and not COMPUTING_ON_DEVICE.get()
    with pytest.raises(ZeroDivisionError), device_of(put(X, library)):
        raise ZeroDivisionError
    assert not COMPUTING_ON_DEVICE.get()  # also after an error


BLURS = {
    "blurs": GaussianBlur(Z, [0.5, 1.0, 2.0]),
    "blurs and points": Mixture([InducingPoints(Z[:3] + 0.1), GaussianBlur(Z[3:], 0.7)]),
}


@every_library
@pytest.mark.parametrize("lengthscale", [1.7, 0.03])
@pytest.mark.parametrize("features", BLURS.values(), ids=BLURS.keys())
def test_blurs_on_a_device(features, lengthscale, library):
    """With squares expanded and not, under every kernel that has a closed form with them."""
    narrow = SquaredExponential(1.3, lengthscale, active_dims=(2, 0))
    for kernel in (SquaredExponential(1.3, [lengthscale, 1.1, 2.6]), narrow + Constant(0.4) + Linear(0.3) + White(0.1)):
        everywhere(Model(kernel, features, Gaussian(0.1)), library, chunk_size=17)


NUMPY_ONLY = {"Wavelet": Wavelet(Z, 1.0, 2.0), "Derivative": Derivative(Z, np.arange(8) % 4 - 1), "Fourier": Fourier(-4.0, 4.0, 4)}
NUMPY_ONLY["a mixture"] = Mixture([GaussianBlur(Z, 1.0), NUMPY_ONLY["Wavelet"]])


@every_library
@pytest.mark.parametrize("name", NUMPY_ONLY)
def test_features_that_need_numpy_say_so(name, library):
    kernel, own = (Matern32(), X[:, :1]) if name == "Fourier" else (SquaredExponential(), X)
    model, there = Model(kernel, NUMPY_ONLY[name], Gaussian(0.1)), put(own, library)
    message = f"{'Wavelet' if name == 'a mixture' else name} features need NumPy.*as_numpy"
    with pytest.raises(ValueError, match=message):
        model_gradient(model, Piece(0, there, Y), 0.5)
    fit = model_evidence(model, Piece(0, own, Y), 0.5)
    with pytest.raises(ValueError, match=message):
        model_predict(model, fit.posteriors, there)


@every_library
def test_what_else_needs_numpy_says_so(library):
    there, model = put(X, library), Model(ARD, InducingPoints(Z), Gaussian(0.1))
    blocks = clustered_blocks(X, 10, np.random.default_rng(0)).labels
    fit = model_evidence(model, Piece(0, X, Y), 0.5)
    memory = remember(fit.posteriors, fit.log_evidence, model.features)
    for message, call in (
        ("`blocks`", lambda: model_gradient(model, Piece(0, there, Y, blocks=blocks), 0.5)),
        ("memories of earlier data", lambda: model_gradient(model, Piece(0, there, Y), 0.5, memory=memory)),
        ("batches of data", lambda: train_stochastic(model, Piece(0, there, Y))),
    ):
        with pytest.raises(ValueError, match=f"{message} need NumPy"):
            call()


@every_library
def test_inducing_inputs_are_parameters_and_on_the_host(library):
    there = put(Z, library)
    for features in (InducingPoints(there), GaussianBlur(there, 1.0)):
        assert type(features.Z) is np.ndarray
        np.testing.assert_array_equal(features.Z, Z)
    assert on_device(ARD(there, put(X, library))) and on_device(ARD(Z, put(X, library)))
    assert same([ARD(there), ARD(there, X)], [ARD(Z), ARD(Z, X)], 1e-15)  # from host to host
    assert same([ARD.diag(there)], [ARD.diag(Z)], 1e-15)


@every_library
def test_arrays_that_are_no_inputs_are_refused(library):
    model, there = Model(ARD, InducingPoints(Z), Gaussian(0.1)), put(X, library)
    xp = namespace_of(there)
    for wrong, message in (
        (xp.astype(there, xp.int64), "`X` must be of float64 or float32; got .*int64"),
        (there[:, 0], r"`X` must have shape \(N, D\); got \(50,\)"),
        (there[:, :2], "`X` has 2 columns"),
    ):
        with pytest.raises(ValueError, match=message):
            model_gradient(model, Piece(0, wrong, Y), 0.5)
    with pytest.raises(ValueError, match="`X2` must be of float64 or float32"):
        ARD(Z, xp.astype(there, xp.int64))
    assert require_device_inputs(there) is there


def test_without_array_api_compat_the_error_says_what_to_install(monkeypatch):
    there = put(X, "array_api_strict")
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    model = Model(ARD, InducingPoints(Z), Gaussian(0.1))
    with pytest.raises(ValueError, match=r"pip install sparse_pep\[gpu\]"):
        model_gradient(model, Piece(0, there, Y), 0.5)
    with pytest.raises(ValueError, match=r"pip install sparse_pep\[gpu\]"):
        place_named("torch").put(X)
    assert model_evidence(model, Piece(0, X, Y), 0.5).log_evidence < 0.0  # NumPy needs nothing
    assert place_named(None).put(X) is X


@pytest.mark.parametrize("library", ["torch", "cupy", "jax"])
def test_a_library_that_is_not_installed_is_named(library, monkeypatch):
    def missing(name, *rest):
        if library in name.split("."):
            raise ImportError(name)
        return import_module(name, *rest)

    monkeypatch.setattr(arrays, "import_module", missing)
    with pytest.raises(ValueError, match=f"`device` '{library}' needs {library}, which is not installed"):
        place_named(library).put(X)


def test_places():
    for device in ("tensorflow", "cuda", 3):
        with pytest.raises(ValueError, match="`device` must begin with one of numpy, torch, cupy, jax"):
            place_named(device)
    for given in ((None, "float32"), ("torch", "float16")):
        with pytest.raises(ValueError, match="`dtype` must be 'float64', or 'float32' on a `device`"):
            place_named(*given)
    with pytest.raises(ValueError, match="`device` torch:nowhere cannot be used"):
        place_named("torch:nowhere").put(X)
    place = place_named("torch:cpu", "float32")
    assert place_named(place) is place and unit_roundoff(place.put(X)) == 2.0**-24
    np.testing.assert_array_equal(as_numpy(place_named("torch").put(X)), X)


def test_what_is_an_array_of_another_library():
    torch = import_module("torch")
    for value in (X, np.float64(1.0), [1.0], 2.0, None, "text"):
        assert not on_device(value)
    assert on_device(torch.ones(2)) and on_device(put(X, "array_api_strict"))
    require_host(X, "nothing")
    with pytest.raises(ValueError, match="this need NumPy; got X of torch"):
        require_host(torch.ones(2), "this")
    with pytest.raises(ValueError, match="expected an array of NumPy, CuPy, PyTorch or JAX; got list"):
        namespace_of([1.0])


@pytest.mark.parametrize("module", ["kernels", "means", "features", "interdomain"])
def test_the_derivation_does_not_ask_where_an_array_is(module):
    """Only `numerics` tells host and device apart; it offers operations that work on both."""
    names = vars(import_module(f"sparse_pep.{module}")).values()
    questions = on_device, unit_roundoff, COMPUTING_ON_DEVICE
    assert not [name for name in names if any(name is question for question in questions)]
