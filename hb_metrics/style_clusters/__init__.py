"""Clusters of styles from the replies of a run, by agglomerative clustering (Smith et al., 2022, A.7)."""
