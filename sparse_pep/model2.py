from functools import partial
import numpy as np
from sparse_pep.blocks2 import BlockShard
from sparse_pep.data.sources import Piece, Source, require_targets
from sparse_pep.inference2 import Fit, fixed_point, gradient
from sparse_pep.likelihoods import Gaussian
from sparse_pep.means import ZeroMean
from sparse_pep.model import Model, block_covariances, chunk_covariances, gradient_by_name, to_vector
from sparse_pep.numerics.devices import as_numpy, is_away, is_single
from sparse_pep.numerics.linalg import HOLD, Factor, factorise, one_blas_thread
from sparse_pep.regression import each_datum
from sparse_pep.shards import Kept, Shard, Shards, SiteState
from sparse_pep.streaming import memory_covariances

KEPT_KUF = 5_000_000
KEPT_V = 20_000_000
KEPT_SEARCH = 32_000_000
KEPT_AWAY = 120_000_000

def room_for(known, n, M, away, memory):
    size = n * M
    if away:
        return Kept(size <= KEPT_AWAY, True)
    if known:
        return Kept(size <= KEPT_V, size <= KEPT_KUF, memory)
    return Kept(size <= KEPT_SEARCH, False)

def shard_of(piece, own, model, Kuu, power, kept=None, chunk_size=None, inflate=1.0):
    require_targets(piece)
    X, y = piece.X, piece.y
    y = as_numpy(y) if is_away(y) else y
    kind, blocks = model.likelihood, getattr(piece, "blocks", None)
    known, n = isinstance(kind, Gaussian), X.shape[0]
    noise = kind.noise_variance if known else 1.0
    power = power if piece.power is None else piece.power
    noise, power, weight = each_datum(
        y, noise_variance=inflate*(noise + piece.known_variance), power=power, weight=piece.weight)
    offset = model.mean(X) if type(model.mean) is not ZeroMean else 0.0
    def pull_mean(f_bar):
        return to_vector(model.mean.pull(X, f_bar.T))
    named = dict(
        covariances=(block_covariances if blocks is not None else chunk_covariances)(model, X),
        likelihood=kind, y=y - offset if known else y, power=power, weight=weight,
        noise=noise if known else None,
        trained=inflate*kind.noise_variance / noise if known else 1.0,
        offset=0.0 if known else np.transpose(offset), pull_mean=pull_mean,
        latent=(0, kind.n_latent), chunk_size=chunk_size, away=is_away(X),
        state=None if own is None or not len(own) else SiteState(*own) if len(own) == 4 else SiteState.at(own[0]),
        kept=kept or Kept(),
    )
    if blocks is not None:
        shard = BlockShard(blocks, Kuu, **named)
        return shard
    return Shard(Kuu, **named)

def memory_shards(memory, model, Kuu, power, kept):
    Kug, kgg, pull = memory_covariances(memory, model.features, model.kernel, kept)
    out, first = [], 0
    C = model.likelihood.n_latent if not isinstance(model.likelihood, Gaussian) else 1
    for c, targets in enumerate(memory.observations):
        place = slice(first, first + len(targets)); first = place.stop
        if not len(targets): continue
        def covariances(rows, place=place):
            here = slice(place.start + rows.start, place.start + rows.stop)
            def back(Kuf_bar, kff_bar):
                a, b = np.zeros(Kug.shape), np.zeros(len(kgg))
                a[:, here], b[here] = Kuf_bar, kff_bar
                return np.concatenate([to_vector(part) for part in pull(a, b)])
            return Kug[:, here].copy(), kgg[here].copy(), back
        ones = np.ones(len(targets))
        out.append(Shard(Kuu, covariances, model.likelihood, targets, power*ones, ones, noise=ones, trained=0.0,
                         latent=(c, C)))
    return out

def shards_for(model, data, power, Kuu, start, memory=None, kept_memory=True, chunk_size=None, room=None, inflate=1.0):
    known = isinstance(model.likelihood, Gaussian)
    local = []
    if memory is not None:
        local = memory_shards(memory, model, Kuu, float(np.mean(power)), kept_memory)
    pieces = list(data.pieces()) if getattr(data, "resident", False) else None
    if pieces is not None and len(pieces) == 1:
        (piece,) = pieces
        keep = room_for(known, piece.X.shape[0], len(Kuu.lower), is_away(piece.X), room)
        return Shards([shard_of(piece, None, model, Kuu, power, keep, chunk_size, inflate), *local]), start
    make = partial(shard_of, model=model, Kuu=Kuu, power=power, inflate=inflate)
    arrays = isinstance(start, np.ndarray)
    return Shards(local, data, make, None if arrays else start, known), start if arrays else None

@one_blas_thread()
def model_evidence(model, data, power=0.5, jitter=0.0, start=None, tol=1e-8, memory=None, kept_memory=True, chunk_size=None):
    Kuu = factorise(model.features.Kuu(model.kernel), jitter, "Kuu")
    shards, start = shards_for(model, data, power, Kuu, start, memory, kept_memory, chunk_size)
    return fixed_point(shards, Kuu, model.likelihood.log_concave, start, tol)

@one_blas_thread()
def model_gradient(model, data, power=0.5, jitter=0.0, start=None, tol=1e-8, memory=None, kept_memory=True, chunk_size=None):
    matrix, pull_Kuu = model.features.Kuu_vjp(model.kernel)
    Kuu = factorise(matrix, jitter, "Kuu")
    size = data.n_data * len(matrix)
    known = isinstance(model.likelihood, Gaussian) and getattr(data, "resident", False)
    with HOLD.lend(size if known and size <= KEPT_V else 0) as memory_room:
        shards, start = shards_for(model, data, power, Kuu, start, memory, kept_memory, chunk_size, memory_room if memory_room.size >= size and known else None)
        fit = fixed_point(shards, Kuu, model.likelihood.log_concave, start, tol)
        Kuu_bar, pulled, likelihood_bar, mean_bar = gradient(fit)
    through = np.concatenate([to_vector(part) for part in pull_Kuu(Kuu_bar)])
    return fit, gradient_by_name(model, pulled + through, np.atleast_1d(likelihood_bar), np.atleast_1d(mean_bar))
