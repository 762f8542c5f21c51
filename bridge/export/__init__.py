"""Policies as ONNX files that Unity accepts, their offline check, and the decentralised runner."""
