"""HTTP routes, one module a resource."""
