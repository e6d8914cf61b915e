from collections.abc import Sequence
import numpy as np

from sparse_pep.blocks import (
    KEPT_SITES, BlockChunk, Partition, add_symmetric_product, block_chunks, block_roots, chunk_sites,
    outer_sites, unexplained_blocks, gaussian_block_sites,
)
from sparse_pep.numerics.linalg import Scratch, add_outer, add_rank_one, column_dots, solve_lower
from sparse_pep.shards import Shard, first_sites
from sparse_pep.sites import cavity


def block_adjoint_chunk(Kuu, whitened, V, chunk, sites, power, weight, outer, scratch):
    """Adjoints of one chunk of blocks.

    Returns Kuf_bar, Kbb_bar (list), d1 (list), spread (n,)
    """
    beta, cov = whitened
    VT, Ve = scratch("VT", V.shape), scratch("Ve", V.shape)
    for (T, _), own, out in zip(sites, chunk.views(V), chunk.views(VT)):
        np.matmul(own, T, out=out)
    U, lifted = np.matmul(cov, VT, out=scratch("U", V.shape)), power[chunk.rows].any()
    spread = column_dots(VT, U)
    Kbb_bar, slopes, mean = [], [], beta @ V
    parts = zip(chunk.members, chunk.columns, sites, *map(chunk.views, (V, VT, U, Ve)))
    for rows, columns, (T, shift), own, own_VT, own_U, out in parts:
        d1 = shift - np.einsum("gij,gj->gi", T, mean[columns].reshape(rows.shape))
        w = weight[rows[:, 0], None, None]
        e = np.zeros_like(T)
        if lifted:  # else all zero
            e = own_VT.transpose(0, 2, 1) @ own_U + d1[:, :, None] * d1[:, None, :]
            e *= power[rows[:, 0], None, None]
            np.matmul(own, w * e, out=out)
        Kbb_bar.append(0.5 * w * (e - T))
        slopes.append(d1)
    count = weight[chunk.rows]
    VT -= U
    VT *= count
    if lifted:
        add_symmetric_product(outer, Ve, V)
        VT -= Ve
    add_rank_one(VT, beta, count * np.concatenate([d1.ravel() for d1 in slopes]))
    return solve_lower(Kuu, VT, transpose=True, out=VT), Kbb_bar, slopes, spread


class BlockShard(Shard):
    """Rows in blocks, each of which has one site: on w_bᵀu, from the sites (2, C, n) of its
    data points on f.

    Attributes
    ----------
    labels : ndarray (n,)
        Which block each row belongs to.
    """

    def __init__(self, labels: np.ndarray, *arguments, **named):
        self.partition = labels if isinstance(labels, Partition) else Partition(labels)
        self.left, self.outer = {}, {}
        super().__init__(*arguments, **named)

    def cut(self) -> list[BlockChunk]:
        return block_chunks(self.partition, len(self.Kuu.lower), self.chunk_size)

    def rows(self, i: int) -> np.ndarray:
        return self.chunks[i].rows

    def leave(self, i: int, Kbb: Sequence[np.ndarray], V: np.ndarray) -> int:
        """Note the unexplained covariance D of each block: as it is, or as a root of it where
        the sites are searched for.
        """
        chunk, left, n_clipped = self.chunks[i], [], 0
        for rows, K, own in zip(chunk.members, Kbb, chunk.views(V)):
            D, clipped = unexplained_blocks(K, own)
            self.kff[rows], self.dff[rows] = (np.einsum("gkk->gk", C) for C in (K, D))
            left.append(D if self.known else block_roots(D))
            n_clipped += clipped
        self.left[i] = left
        return n_clipped

    def is_new(self, i: int) -> bool:
        return i not in self.left

    @property
    def keeps(self) -> bool:
        """Whether there is room for the unexplained covariances of all blocks."""
        return not self.known or len(self.y) * self.partition.sizes.max() <= KEPT_SITES

    def release(self, i: int) -> None:
        """Keep what is known of the blocks of a chunk no longer, if there is no room."""
        if not self.keeps:
            self.left.pop(i), self.outer.pop((0, i))

    beyond = 0.0  # marginals are those of f itself

    def started(self) -> np.ndarray:
        precision, shift = first_sites(self.likelihood, self.y, self.kff, 0.0, self.offset)
        share = 1.0 / (1.0 + (1.0 - self.power) * self.dff * precision)
        return np.stack([share * precision, share * shift])

    def step(self, step):
        self.outer = {}
        return super().step(step)

    def sites_of(self, c: int, i: int) -> list[tuple]:
        """What the sites of the blocks of a chunk are made of: R with T = RRᵀ, ν and terms of
        log Z where they are known, else T, ν, E and terms.
        """
        if (c, i) not in self.outer:
            chunk = self.chunks[i]
            if self.known:
                self.outer[c, i] = [
                    gaussian_block_sites(self.y[rows], D, self.noise[rows], self.power[rows[:, 0]])
                    for rows, D in zip(chunk.members, self.left[i])
                ]
            else:
                precision, shift = self.state.sites[:, c]
                self.outer[c, i] = [
                    outer_sites(root, precision[rows], shift[rows], self.power[rows[:, 0]])
                    for rows, root in zip(chunk.members, self.left[i])
                ]
        return self.outer[c, i]

    def add_sites(self, c, i, V, work, S, s, scratch) -> float:
        chunk, sites, terms = self.chunks[i], self.sites_of(c, i), 0.0
        VT = scratch("VT", V.shape)
        for rows, (T, *_, each), own, out in zip(chunk.members, sites, chunk.views(V), chunk.views(VT)):
            weight = self.weight[rows[:, 0]]
            scale = np.sqrt(weight) if self.known else weight
            np.matmul(own, scale[:, None, None] * T, out=out)
            terms += weight @ each
        if self.known:
            add_outer(S, VT)
        else:
            add_symmetric_product(S, VT, V)
        s += V @ (self.weight[chunk.rows] * np.concatenate([shift.ravel() for _, shift, *_ in sites]))
        self.release(i)
        return float(terms)

    def marginals_of(self, c, i, V, posterior, scratch) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of each f under the tilted density of its block."""
        chunk, (precision, shift) = self.chunks[i], self.state.sites[:, c]
        half = solve_lower(posterior.B, V, out=scratch("half", V.shape))
        mu, JT = posterior.b @ half, scratch("JT", V.shape)
        mean, var = np.empty((2, V.shape[1]))
        parts = zip(chunk.members, self.sites_of(c, i), chunk.columns, chunk.views(half), chunk.views(JT))
        for rows, (_, _, E, _), columns, own, out in parts:
            a, tau = self.power[rows], precision[rows]
            J = np.eye(rows.shape[1]) - a[:, :, None] * E * tau[:, None, :]
            np.matmul(own, J.transpose(0, 2, 1), out=out)
            mu_f = np.einsum("gij,gj->gi", J, mu[columns].reshape(rows.shape))
            mean[columns] = (mu_f + a * np.einsum("gij,gj->gi", E, shift[rows])).ravel()
            var[columns] = np.einsum("gkk->gk", E).ravel() + column_dots(JT[:, columns], JT[:, columns])
        return mean, var

    def adjoint_of(self, c, i, V, whitened, through, outer, scratch) -> tuple:
        chunk, sites = self.chunks[i], self.sites_of(c, i)
        if self.known:
            pairs = [(R @ R.transpose(0, 2, 1), shift) for R, shift, _ in sites]
        else:
            pairs = [(T, shift) for T, shift, *_ in sites]
        given = whitened, V, chunk, pairs, self.power, self.weight, outer, scratch
        Kuf_bar, Kbb_bar, slopes, spread = block_adjoint_chunk(self.Kuu, *given)
        d1 = np.concatenate([one.ravel() for one in slopes])
        if not self.known:
            return Kuf_bar, Kbb_bar, 0.0, d1
        noise, weight = self.noise[chunk.rows], self.weight[chunk.rows]
        trained = np.broadcast_to(self.trained, self.y.shape)[chunk.rows]
        T_nn = np.concatenate([np.einsum("gkk->gk", T).ravel() for T, _ in pairs])
        DT_nn = np.concatenate([np.einsum("gij,gji->gi", D, T).ravel() for D, (T, _) in zip(self.left[i], pairs)])
        spread = spread if through is None else 0.0
        slope = 0.5 * (noise * (d1**2 - T_nn + spread) + (1.0 - self.power[chunk.rows]) * DT_nn)
        self.release(i)
        return Kuf_bar, Kbb_bar, (weight * trained) @ slope, d1

    def sites(self) -> tuple[np.ndarray, np.ndarray]:
        """Precisions and shifts (C, n) of the sites of the data points on f."""
        if not self.known:
            return tuple(self.state.sites)
        return 1.0 / self.noise[None], (self.y / self.noise)[None]
