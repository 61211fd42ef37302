"""Programs written for JAX, as JAX traces them: `rlx.from_jax`. Needs JAX, which rlx does not."""
