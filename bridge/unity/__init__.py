"""The ML-Agents link: protocol, server, player process and the headless player."""
