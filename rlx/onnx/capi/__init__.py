"""Where programs written for ONNX Runtime look for the errors that it raises."""
