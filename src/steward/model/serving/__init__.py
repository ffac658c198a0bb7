"""The words of the serving domain: requests, model servers, and one moment of both."""
