"""All workloads, by family."""

from bench.workloads.data import DATA
from bench.workloads.networks import NETWORKS
from bench.workloads.products import PRODUCTS
from bench.workloads.small import SMALL

WORKLOADS = (*SMALL, *NETWORKS, *DATA, *PRODUCTS)
"""In the order of the report."""
