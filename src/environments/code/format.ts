import type { Excess, Outcome, Ran } from '../../sandbox/snippets/outcomes.js';
import type { Limits } from '../../sandbox/limits.js';
import type { CodeSettings } from './settings.js';

/** Messages to code, and outcomes to observations, in upstream's format. Pure functions. */

export interface MessageCode {
  blocks: string[];
  /** The model's text after the last block. An observation that begins with it is cut behind it. */
  lookahead: string;
}

const [BEGIN, END] = ['<code>', '</code>'];

/** null: it has no code. In one pass, since a policy may write only opening tags. */
export function codeOf(
  message: string,
  { semantics }: Pick<CodeSettings, 'semantics'>,
): MessageCode | null {
  const last = message.lastIndexOf(END);
  const lookahead = message.slice(last + END.length);
  const blocks: string[] = [];
  let begin = message.indexOf(BEGIN);
  while (begin !== -1 && begin + BEGIN.length <= last) {
    const from = begin + BEGIN.length;
    const end = semantics === 'nemo-rl' ? last : message.indexOf(END, from);
    blocks.push(message.slice(from, end));
    begin = message.indexOf(BEGIN, end);
  }
  return blocks.length === 0 ? null : { blocks, lookahead };
}

export interface Result {
  text: string | null;
  code: string;
  lookahead: string;
}

export function formatResult({ text, code, lookahead }: Result): string {
  if (text === null) return '';
  const isLong = code.includes('\n') || text.includes('\n');
  const result = isLong ? `\n\n<result>\n${text}\n</result>` : `<result>${text}</result>`;
  return lookahead !== '' && result.startsWith(lookahead) ? result.slice(lookahead.length) : result;
}

/**
 * The observation: each block's output (`standard`), then its value or exception. `evaluated`: the last block ran to its
 * end and its last expression has a value.
 */
export function observationOf(
  ran: Ran,
  { code, settings, limits }: { code: MessageCode; settings: CodeSettings; limits: Limits },
): { content: string; evaluated: boolean } {
  const { blocks, lookahead } = code;
  const [first = ''] = blocks;
  if ('killed' in ran) {
    const text = describeExcess(ran.killed, limits);
    return { content: formatResult({ text, code: first, lookahead }), evaluated: false };
  }
  const texts = ran.outcomes.map((outcome, i) => {
    const isLast = i === ran.outcomes.length - 1;
    const text = settings.semantics === 'standard' ? transcript(outcome) : valueOf(outcome);
    return formatResult({ text, code: blocks[i] ?? '', lookahead: isLast ? lookahead : '' });
  });
  const last = ran.outcomes.at(-1);
  const isWhole = ran.outcomes.length === blocks.length && last?.status === 'ok';
  return {
    content: texts.filter((text) => text !== '').join('\n'),
    evaluated: isWhole && last.evaluated,
  };
}

function valueOf(outcome: Outcome): string | null {
  if (outcome.status === 'raises') return null;
  const { value, value_cut } = outcome;
  return value === null ? null : `${value}${mark(value_cut, 'characters')}`;
}

/** As on a terminal: what was printed, then the value. */
function transcript(outcome: Outcome): string | null {
  if (outcome.status === 'raises') return null;
  const { stdout, stdout_cut } = outcome;
  const printed = `${stdout.replace(/\n$/, '')}${mark(stdout_cut, 'bytes')}`;
  const parts = [printed, valueOf(outcome) ?? ''].filter((part) => part !== '');
  return parts.length === 0 ? null : parts.join('\n');
}

const mark = (cut: number, unit: string): string => (cut === 0 ? '' : `… [${cut} more ${unit}]`);

const UNDONE = 'nothing of this message has happened';

/** As an exception would read. */
function describeExcess(excess: Excess, limits: Limits): string {
  const exception = {
    timeout: `TimeoutError('the code ran for more than ${limits.timeout_ms / 1000} s`,
    cpu: `TimeoutError('the code used more than ${limits.cpu_ms / 1000} s of processor time`,
    memory: `MemoryError('the code used more than ${limits.memory / 2 ** 20} MiB of memory`,
    processes: `RuntimeError('the code started more than ${limits.processes} processes and threads`,
    disk: `OSError('the code wrote more than ${limits.disk / 2 ** 20} MiB of files`,
    ended: `RuntimeError('the code ended the interpreter`,
  }[excess];
  return `${exception}; ${UNDONE}')`;
}
