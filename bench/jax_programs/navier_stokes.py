"""Decaying turbulence: the vorticity equation on a torus, by spectra and RK4."""

import functools

import jax
import jax.numpy as jnp
from jax import lax, random

N = 64


def wave_numbers():
    k = jnp.fft.fftfreq(N, 1.0 / N)
    return jnp.meshgrid(k, jnp.fft.rfftfreq(N, 1.0 / N), indexing="ij")


def slope(w_hat, viscosity):
    kx, ky = wave_numbers()
    k2 = kx**2 + ky**2
    psi = w_hat / jnp.where(k2 == 0, 1.0, k2)
    keep = (jnp.abs(kx) < N / 3) & (jnp.abs(ky) < N / 3)
    back = functools.partial(jnp.fft.irfft2, s=(N, N))
    u, v = back(1j * ky * psi), back(-1j * kx * psi)
    wx, wy = back(1j * kx * w_hat), back(1j * ky * w_hat)
    return -jnp.fft.rfft2(u * wx + v * wy) * keep - viscosity * k2 * w_hat


@functools.partial(jax.jit, static_argnames=("steps",))
def simulate(w, viscosity, dt, steps):
    def rk4(_, w_hat):
        a = slope(w_hat, viscosity)
        b = slope(w_hat + 0.5 * dt * a, viscosity)
        c = slope(w_hat + 0.5 * dt * b, viscosity)
        d = slope(w_hat + dt * c, viscosity)
        return w_hat + dt / 6 * (a + 2 * b + 2 * c + d)

    return jnp.fft.irfft2(lax.fori_loop(0, steps, rk4, jnp.fft.rfft2(w)), s=(N, N))


def run():
    kx, ky = wave_numbers()
    noise = jnp.fft.rfft2(random.normal(random.PRNGKey(0), (N, N)))
    w = 10 * jnp.fft.irfft2(noise * jnp.exp(-((kx**2 + ky**2) / 36.0)), s=(N, N))
    found = simulate(w, 1e-3, 2e-3, steps=100)
    return {"enstrophy": jnp.mean(found**2), "corner": found[:2, :2]}


if __name__ == "__main__":
    print(run())
