import { fork } from 'node:child_process';
import path from 'node:path';
import type { Document, DocumentOptions, ParseOptions, SchemaOptions } from 'yaml';
import { Lexer, LineCounter, parseDocument, Parser, visit } from 'yaml';
import { MAX_LEVELS } from './json/depth.js';
import type { Parsed } from './yaml-process.js';

/** YAML that people write. Problems that the parser would ignore are errors here, with their place. */
export interface YamlProblem {
  line: number;
  column: number;
  what: string;
}

interface Found {
  message: string;
  pos: readonly [number, number];
}

/** The document and its value, or the first problem. */
export function parseYamlDocument(
  text: string,
  options: ParseOptions & DocumentOptions & SchemaOptions = {},
): { document: Document; value: unknown } | { problem: YamlProblem } {
  const lines = new LineCounter();
  const problemOf = ({ message, pos: [from] }: Found): { problem: YamlProblem } => {
    const { line, col } = lines.linePos(from);
    return { problem: { line, column: col, what: message } };
  };
  const deep = tooDeep(text, lines);
  if (deep !== null) return problemOf(deep);
  const document = parseDocument(text, { ...options, prettyErrors: false });
  // An unknown tag would drop its value silently.
  const [wrong = wrongAlias(document)] = [...document.errors, ...document.warnings];
  if (wrong !== null) return problemOf(wrong);
  try {
    return { document, value: document.toJS() as unknown };
  } catch {
    // A few nested aliases may expand to billions of values.
    return problemOf({ message: 'its aliases expand to too many values', pos: [0, 0] });
  }
}

/** Returns the value; throws an error that names the file and the place. */
export function parseYaml(text: string, file: string): unknown {
  const parsed = parseYamlDocument(text);
  if ('value' in parsed) return parsed.value;
  const { line, column, what } = parsed.problem;
  throw new Error(`${file} is not YAML at line ${line}, column ${column}: ${what}`);
}

/**
 * Documents are composed by recursion, and V8 ends the process where it compiles an expression at the end of the stack.
 * Tokens are parsed without. Notes where lines begin.
 */
function tooDeep(text: string, lines: LineCounter): Found | null {
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  for (const lexeme of new Lexer().lex(text)) {
    // It parses when it is asked for what has ended.
    Array.from(parser.next(lexeme));
    if (parser.stack.length > MAX_LEVELS) {
      const message = `lists and mappings are nested deeper than ${MAX_LEVELS} levels`;
      return { message, pos: [parser.offset, parser.offset] };
    }
  }
  return null;
}

function wrongAlias(document: Document): Found | null {
  const wrong: Found[] = [];
  visit(document, {
    Alias: (...[, alias, path]) => {
      const target = alias.resolve(document);
      if (target !== undefined && !path.includes(target)) return undefined;
      const what = target === undefined ? 'nothing' : 'itself';
      const [from = 0, to = 0] = alias.range ?? [];
      wrong.push({ message: `the alias *${alias.source} refers to ${what}`, pos: [from, to] });
      return visit.BREAK;
    },
  });
  return wrong[0] ?? null;
}

/** In MB: a megabyte of YAML takes a tenth to three times as much. */
const FOREIGN_HEAP_MB = 256;
const FOREIGN_MS = 30_000;

/**
 * YAML that another process wrote, as a value. A few bytes may take seconds and hundreds of times their size. A thread
 * whose heap is full may take its process along, so a process with its own limits reads it. Throws the parser's error,
 * or that of a limit.
 */
export async function parseForeignYaml(
  text: string,
  { heap_mb = FOREIGN_HEAP_MB } = {},
): Promise<unknown> {
  const parser = fork(new URL(`./yaml-process${path.extname(import.meta.url)}`, import.meta.url), {
    execArgv: [...process.execArgv, `--max-old-space-size=${heap_mb}`],
    env: {},
    serialization: 'advanced',
    stdio: 'ignore',
    timeout: FOREIGN_MS,
    killSignal: 'SIGKILL',
  });
  try {
    const parsed = await new Promise<Parsed>((resolve, reject) => {
      parser.once('message', (message) => {
        resolve(message as Parsed);
      });
      parser.once('error', reject);
      parser.once('exit', (code, signal) => {
        const limits = `${heap_mb} MB or ${FOREIGN_MS / 1000} s`;
        reject(
          new RangeError(`its YAML takes more than ${limits} (${signal ?? `exit code ${code}`})`),
        );
      });
      // Where it is gone already, its end says so.
      parser.send(text, () => undefined);
    });
    if ('value' in parsed) return parsed.value;
    throw Object.assign(new Error(parsed.message), { name: parsed.name });
  } finally {
    parser.kill('SIGKILL');
  }
}
