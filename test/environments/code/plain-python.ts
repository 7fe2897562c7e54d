import { execFile } from 'node:child_process';

/** Runs many pieces of Python from one start of it, each in a process of its own. */
export const EACH = `import ast, json, os, sys
def said(code):
    tree, scope = ast.parse(code), {}
    try:
        exec(compile(ast.Module(tree.body[:-1], []), '<code>', 'exec'), scope)
        return repr(eval(compile(ast.Expression(tree.body[-1].value), '<code>', 'eval'), scope))
    except BaseException as error:
        return repr(error)
def tried(code):
    source, sink = os.pipe()
    if os.fork() == 0:
        try:
            os.write(sink, said(code).encode('utf-8', 'replace'))
        finally:
            os._exit(0)
    os.close(sink)
    with open(source) as file:
        text = file.read()
    os.wait()
    return text
print()
print(json.dumps([tried(code) for code in json.load(sys.stdin)]))`;

/** What `EACH` said: `repr` of each piece's last expression, or of what it raised. */
export function saidOf(text: string, otherwise: string): string[] {
  const line = text.trim().split('\n').at(-1) ?? '';
  if (!line.startsWith('[')) throw new Error(otherwise);
  return JSON.parse(line) as string[];
}

/** Each piece with nothing around it, one after the other. */
export function tryPlain(codes: string[], env: Record<string, string> = {}): Promise<string[]> {
  const options = { env: { ...process.env, ...env }, timeout: 280_000, maxBuffer: 2 ** 26 };
  return new Promise((resolve, reject) => {
    const child = execFile('python3', ['-c', EACH], options, (error, stdout) => {
      if (error === null) resolve(saidOf(stdout, stdout));
      else reject(new Error(`ended: ${error.message}`));
    });
    child.stdin?.end(JSON.stringify(codes));
  });
}
