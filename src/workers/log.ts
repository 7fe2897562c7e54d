import { pino, type Logger } from 'pino';
import { describeError } from '../platform/errors.js';
import { plain, plainJson, plainLine } from '../platform/plain.js';
import { withoutSecrets } from '../platform/secrets.js';

/**
 * Writes lines to standard output, synchronously as pino itself does, and without this process's secrets: as text on a
 * terminal, else as JSON.
 */
export function createLog(level: string): Logger {
  const output = pino.destination({ dest: 1, sync: true });
  const shown = process.stdout.isTTY ? readable : plainJson;
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
  try {
    const fields = JSON.parse(line) as unknown;
    return typeof fields === 'object' && fields !== null && 'level' in fields && 'msg' in fields;
  } catch {
    return false;
  }
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
