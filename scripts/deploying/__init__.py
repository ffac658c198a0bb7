"""What Prometheus and Grafana need to watch steward, written from the table of metrics."""
