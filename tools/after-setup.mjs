/**
 * Runs a program of this checkout once it is set up: `node tools/after-setup.mjs [--test] [--packages] PROGRAM [argument
 * …]`. `--test` sets up what tests need, too, and `--packages` builds the packages. A program of `.lab` is compiled
 * before. `--help` among the arguments prints how the program is used, and installs and compiles nothing.
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { LAB, compile, programFiles } from './compile.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
const at = (...parts) => path.join(root, ...parts);

const words = process.argv.slice(2);
const first = words.findIndex((word) => !word.startsWith('--'));
if (first === -1) throw new Error('expected a program, got none');
const prepared = words.slice(0, first);
const [program, ...args] = words.slice(first);
const [, made] = /^\.lab\/(.+)\.js$/.exec(program) ?? [];

if (args.some((arg) => arg === '--help' || arg === '-h')) console.log(usageOf(program));
else process.exitCode = await runAll();

/** One step after the other. Only the program itself writes to standard output. */
async function runAll() {
  const setUp = ['tools/setup.mjs', ...prepared.filter((word) => word === '--test')];
  const before = [
    setUp,
    ...(prepared.includes('--packages') ? [['tools/build-packages.mjs']] : []),
  ];
  for (const step of before) {
    const code = await run(step, ['inherit', 2, 2]);
    if (code !== 0) return code;
  }
  // In place: another program may be running from it.
  if (made !== undefined)
    await compile({ root, files: programFiles(root, LAB), outdir: at('.lab') });
  return await run([program, ...args], 'inherit');
}

/** Its exit code; a terminal sends Ctrl-C to the program, too. */
function run([file, ...given], stdio) {
  const child = spawn(process.execPath, [at(file), ...given], { cwd: root, stdio });
  const wait = () => undefined;
  const end = (signal) => child.kill(signal);
  process.on('SIGINT', wait).on('SIGTERM', end);
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      process.off('SIGINT', wait).off('SIGTERM', end);
      resolve(code ?? 1);
    });
  });
}

/** The text of its `USAGE`, in its own source or in one beside it; else the comment that says what it is. */
function usageOf(file) {
  const source = at(made === undefined ? file : `${made}.ts`);
  const own = readFileSync(source, 'utf8');
  const options = path.join(path.dirname(source), 'options.ts');
  const texts = [own, ...(existsSync(options) ? [readFileSync(options, 'utf8')] : [])];
  for (const text of texts) {
    const [, usage] = /\bUSAGE = `([^`]*)`/.exec(text) ?? [];
    if (usage !== undefined) return usage;
  }
  const [, comment = ''] = /^\/\*\*\n(.*?)\n? \*\//ms.exec(own) ?? [];
  return comment.replaceAll(/^ \* ?/gm, '');
}
