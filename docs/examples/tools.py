"""A calculator and the date as tools, for any program that speaks the Model Context Protocol. Needs Python alone."""
import ast
import json
import operator
import sys
from datetime import datetime

SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def value(node):
    if isinstance(node, ast.BinOp):
        return SIGNS[type(node.op)](value(node.left), value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value(node.operand)
    return node.value + 0.0


# By name: what runs, what the model is told of it, and its arguments.
TOOLS = {
    "calculate": (lambda expression: f"{value(ast.parse(expression, mode='eval').body):.12g}",
                  "The value of an expression with + - * / and brackets.", {"expression": {"type": "string"}}),
    "date": (lambda: f"{datetime.now():%A, %Y-%m-%d %H:%M}", "Today's date, and the time.", {}),
}

for line in sys.stdin:
    message = json.loads(line)
    method, params, result = message["method"], message.get("params", {}), {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "tools", "version": "1"}}
    if method == "tools/list":
        result = {"tools": [{"name": name, "description": words, "inputSchema": {
            "type": "object", "properties": given, "required": list(given)}} for name, (_, words, given) in TOOLS.items()]}
    if method == "tools/call":
        try:
            result = {"content": [{"type": "text", "text": TOOLS[params["name"]][0](**params.get("arguments", {}))}]}
        except Exception as error:
            result = {"content": [{"type": "text", "text": f"It did not work: {error!r}"}], "isError": True}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
