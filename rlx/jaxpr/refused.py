"""Primitives of JAX that have no rule, with the reason; `docs/from_jax.md` lists them."""

from __future__ import annotations

from rlx.jaxpr.interpret import refuse

refuse(
    "ag_done", "ag_start", "all_gather_done", "all_gather_reduced", "all_gather_reduced_start",
    "all_gather_start", "all_to_all_done", "all_to_all_start", "pbroadcast_done", "ppermute_done",
    "ppermute_start", "psum_done", "psum_invariant_start", "psum_start", "reduce_scatter_done",
    "reduce_scatter_start", "unreduced_psum", "unreduced_psum_start", "unreduced_reduce_scatter",
    "unreduced_reduce_scatter_start",
    because="rlx splits collectives into start and done itself (rlx.distributed)",
)  # fmt: skip
refuse(
    "precv", "psend", "ragged_all_to_all",
    because="rlx exchanges blocks of equal sizes among all ranks of an axis",
)  # fmt: skip
refuse(
    "core_map", "run_state", "create_linear", "pin", "unpin",
    because="it is of Pallas or of mutable arrays that JAX has not discharged",
)  # fmt: skip
refuse(
    "global_array_to_host_local_array", "host_local_array_to_global_array",
    because="arrays of several processes are those of rlx.distributed",
)  # fmt: skip
refuse(
    "full_to_shard", "shard_to_full", "xla_pmap",
    because="it is of the pmap and the partitioner of JAX before 0.10: use shard_map",
)  # fmt: skip
refuse("pgather", because="JAX 0.9 does not have it: index the result of all_gather")
refuse("after_all", "create_token", because="tokens order effects for XLA alone")
refuse(
    "dot_product_attention_bwd_wrapper", "dot_product_attention_fp8_bwd_wrapper",
    "dot_product_attention_fp8_fwd_wrapper", "dot_product_attention_fwd_wrapper",
    "scaled_matmul_wrapper",
    because="it calls cuDNN",
)  # fmt: skip
refuse("call_exported", because="it is StableHLO text, no jaxpr: call the function itself")
refuse("ffi_call", because="it calls native code by a signature of XLA's own")
refuse("rng_uniform", because="its bits are of a hidden state of XLA")
refuse("select_and_scatter", because="JAX traces it for functions that its own API does not take")
refuse("geqp3", because="QR with pivoting is the primitive `qr`, which has a rule")
refuse("unreachable", because="it ends the process")
