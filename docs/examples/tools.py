"""A calculator and the date as tools, for any program that speaks the Model Context Protocol. Needs Python alone."""
import ast
import datetime
import json
import operator
import sys

SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def value(node):
    if isinstance(node, ast.BinOp):
        return SIGNS[type(node.op)](value(node.left), value(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -value(node.operand)
    return node.value + 0.0


def calculate(expression):
    return f"{value(ast.parse(expression, mode='eval').body):.12g}"


def date():
    return datetime.datetime.now().strftime("%A, %Y-%m-%d %H:%M")


TEXT = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
TOOLS = {"calculate": (calculate, "The value of an expression with + - * / and brackets.", TEXT),
         "date": (date, "Today's date, and the time.", {"type": "object", "properties": {}})}

for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params", {})
    result = {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "tools", "version": "1"}}
    if method == "tools/list":
        result = {"tools": [{"name": n, "description": d, "inputSchema": s} for n, (_, d, s) in TOOLS.items()]}
    if method == "tools/call":
        try:
            text, failed = TOOLS[params["name"]][0](**params.get("arguments", {})), False
        except Exception as error:
            text, failed = f"It did not work: {error!r}", True
        result = {"content": [{"type": "text", "text": text}], "isError": failed}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
