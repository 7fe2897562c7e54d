import { StringDecoder } from 'node:string_decoder';
import { pino, type Logger } from 'pino';
import { describeError } from '../platform/errors.js';
import { isRecord, jsonIn } from '../platform/json/object.js';
import { plain, plainJson, plainLine } from '../platform/plain.js';
import { withoutSecrets } from '../platform/secrets.js';

/** To standard output, synchronously and without secrets: as text on a terminal, else as JSON. */
export function createLog(level: string): Logger {
  const output = pino.destination({ dest: 1, sync: true });
  const shown = process.stdout.isTTY ? createTerminal() : plainJson;
  return pino(
    { name: 'worker', level, formatters: { log: withCauses } },
    {
      write: (line: string) => {
        output.write(shown(withoutSecrets(line)));
      },
    },
  );
}

/** JSON shows no field of an `Error`, so errors become objects with type, message and stack. */
export const withCauses = (fields: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Error ? factsOf(value) : value,
    ]),
  );

function factsOf(error: Error): { type: string; message: string; stack?: string } {
  const { type } = error as { type?: unknown };
  return {
    type: typeof type === 'string' ? type : error.name,
    message: describeError(error),
    ...(error.stack !== undefined && { stack: error.stack }),
  };
}

const SAY_AGAIN_MS = 30_000;
const WAITED_FOR = new Set(['GenerationUnavailable', 'EnvironmentUnavailable']);
/** The SDK says this of workers of other roles, which is no news. */
const NO_NEWS = 'No workflows registered, not polling for workflow tasks';

/** The lines of a log for people. A wait is one line every half a minute, for all that wait and all tries. */
export function createTerminal(now = () => performance.now()): (line: string) => string {
  const said = new Map<string, { at_ms: number; more: number }>();
  return (line) => {
    const { msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
    const { error } = fields;
    if (msg === NO_NEWS) return '';
    if (msg === 'Activity failed' && isError(error) && WAITED_FOR.has(error.type)) return '';
    if (typeof msg !== 'string' || !msg.startsWith('waiting')) return readable(line);
    const { service = '', message = '' } = fields;
    const what = `${msg} ${valueText(service)} ${valueText(message)}`;
    const before = said.get(what);
    if (before !== undefined && now() - before.at_ms < SAY_AGAIN_MS) {
      before.more++;
      return '';
    }
    said.delete(what);
    said.set(what, { at_ms: now(), more: 0 });
    for (const [old] of said) if (said.size > MOST_WAITS) said.delete(old);
    const more = before === undefined || before.more === 0 ? {} : { more: before.more };
    const repeats = valueText(message).startsWith(valueText(service)) ? { service: undefined } : {};
    return readable(JSON.stringify({ ...fields, ...repeats, ...more, msg }));
  };
}

const MOST_WAITS = 100;
const ERROR = 50;

/** Fields that Temporal's SDK adds to its lines and that a terminal need not show. */
const HIDDEN = new Set([
  ...['name', 'pid', 'hostname', 'level', 'time', 'msg', 'sdkComponent', 'namespace', 'taskQueue'],
  ...['runId', 'taskToken', 'isLocal', 'workflowType', 'activityId', 'stack'],
]);

/** A log line for people: time, level, message and fields; the stack of an error follows. */
export function readable(line: string): string {
  const fields = JSON.parse(line) as Record<string, unknown>;
  const level = Number(fields['level']);
  const time = new Date(Number(fields['time'])).toTimeString().slice(0, 8);
  const shown = Object.entries(fields)
    .filter(([name]) => !HIDDEN.has(name))
    .map(([name, value]) => `  ${name}=${valueText(value)}`);
  const label = (pino.levels.labels[level] ?? '').toUpperCase().padEnd(5);
  const head = plainLine(`${time} ${label} ${valueText(fields['msg'] ?? '')}${shown.join('')}`);
  return `${head}\n${level >= ERROR ? stackOf(fields) : ''}`;
}

/** The end of a log for people. Lines that a log did not write, and one that is cut, stay as they are. */
export const readableLines = (text: string): string =>
  text
    .split('\n')
    .map((line) => (isOfLog(line) ? readable(line).trimEnd() : line))
    .join('\n');

function isOfLog(line: string): boolean {
  const fields = jsonIn(line);
  return isRecord(fields) && 'level' in fields && 'msg' in fields;
}

function valueText(value: unknown): string {
  if (isError(value)) return `${value.type}: ${value.message}`;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const isError = (value: unknown): value is { type: string; message: string; stack?: string } =>
  typeof value === 'object' && value !== null && 'type' in value && 'message' in value;

function stackOf(fields: Record<string, unknown>): string {
  const stacks = Object.values(fields).flatMap((value) =>
    isError(value) && value.stack !== undefined ? [value.stack] : [],
  );
  return stacks.map((stack) => `${plain(stack).replace(/^/gm, '    ')}\n`).join('');
}

/** Characters; of a longer line, the rest is another one. */
const LONGEST = 64 * 1024;

/**
 * Whatever else this process writes becomes lines of its log, so that all are of one kind: warnings of Node.js, and what
 * modules of the deployment and libraries print. Returns what ends that.
 */
export function takeOutputOfOthers(log: Pick<Logger, 'info' | 'warn'>): () => void {
  // Without such a listener, the process was started to print none (NODE_NO_WARNINGS).
  const printing = process.listeners('warning').filter(({ name }) => name === 'onWarning');
  const warn = ({ name, message, stack }: Error): void => {
    log.warn({ warning: name, stack }, message);
  };
  for (const listener of printing) process.off('warning', listener).on('warning', warn);
  const endings = [
    takeStream(process.stdout, (line) => {
      log.info({ stream: 'stdout' }, line);
    }),
    takeStream(process.stderr, (line) => {
      log.warn({ stream: 'stderr' }, line);
    }),
  ];
  return () => {
    for (const end of endings) end();
    for (const listener of printing) process.off('warning', warn).on('warning', listener);
  };
}

type Done = (error?: Error | null) => void;

function takeStream(stream: NodeJS.WriteStream, say: (line: string) => void): () => void {
  const own = Object.getOwnPropertyDescriptor(stream, 'write');
  const decoder = new StringDecoder('utf8');
  let begun = '';
  stream.write = (chunk: string | Uint8Array, ...more: (BufferEncoding | Done | undefined)[]) => {
    const coding = typeof more[0] === 'string' ? more[0] : 'utf8';
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk, coding) : Buffer.from(chunk);
    const lines = (begun + decoder.write(bytes)).split('\n');
    begun = lines.pop() ?? '';
    if (begun.length > LONGEST) {
      lines.push(begun);
      begun = '';
    }
    for (const line of lines) if (line !== '') say(plainLine(line));
    const done = more.find((one) => typeof one === 'function');
    if (done !== undefined) process.nextTick(done);
    return true;
  };
  return () => {
    if (begun !== '') say(plainLine(begun));
    if (own !== undefined) Object.defineProperty(stream, 'write', own);
    else Reflect.deleteProperty(stream, 'write');
  };
}
