import type { CallMessage } from '../../model/calls/message.js';
import { messageOf } from '../../model/calls/message.js';
import type { LineOf } from '../../model/journal.js';
import type { JournalCall } from '../../model/journal/calls.js';
import { messagesBeyond } from '../../model/journal/calls.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import type { Paths } from '../../model/results/call-paths.js';
import { pathsOf, rulesOf } from '../../model/results/call-paths.js';
import { VALID_STOP_REASONS } from '../../model/workflow-safe/stop-reasons.js';
import { plainLine } from '../../platform/plain.js';
import { formatCount } from '../number-text.js';
import type { Block, PageOptions } from './block.js';
import { block, isShown, sampledFacts, seams, tokenTable } from './block.js';
import { divergenceText, editText, saidIn } from './divergence-text.js';

const DEEPEST = 8;
const PREVIEW = 80;

interface Calls {
  trajectory: Trajectory;
  paths: Paths;
  options: PageOptions;
}

const callsOf = (trajectory: Trajectory, options: PageOptions): Calls => ({
  trajectory,
  paths: pathsOf(trajectory, rulesOf(trajectory)),
  options,
});

/** The calls as a tree, each under the answer that it goes on from, and what became of the lives. */
export function treeBlocks(trajectory: Trajectory, options: PageOptions): Block[] {
  const calls = callsOf(trajectory, options);
  const depths: number[] = [];
  const blocks = trajectory.calls.flatMap((call, number) => {
    const depth = depthOf(call, { above: calls.paths.before[number], depths });
    depths.push(depth);
    return isShown(number, options) ? [callBlock(call, { calls, number, depth })] : [];
  });
  const ended = trajectory.lives.flatMap(({ line: { life }, exit }) => {
    if (exit === null) return [];
    const title = `life ${life} ended: ${exitText(exit)}`;
    return [block(`life.${life}`, { title, text: leftText(exit), style: options.style })];
  });
  return [
    ...blocks,
    ...refusedBlocks(trajectory, options),
    ...ended,
    ...verdictBlock(trajectory, options),
  ];
}

/** Requests that got no call: a program that asks for the same again and again has a line a minute. */
const refusedBlocks = ({ refused, lives }: Trajectory, { style }: PageOptions): Block[] =>
  refused.map(({ life, message }, at) => {
    const where = lives.length > 1 ? `, life ${life}` : '';
    return block(`refused.${at}`, { title: `a call was refused${where}`, text: message, style });
  });

/** A branch stands one step further right than what it branches from. */
function depthOf(
  { line }: JournalCall,
  { above, depths }: { above: number | null | undefined; depths: readonly number[] },
): number {
  if (line.cause === 'first') return 0;
  const depth = depths[above ?? line.parent ?? -1] ?? 0;
  return Math.min(DEEPEST, line.cause === undefined ? depth : depth + 1);
}

/** What is known of a call, and a line each of what it was asked and what it said. */
function callBlock(
  call: JournalCall,
  { calls, number, depth }: { calls: Calls; number: number; depth: number },
): Block {
  const { trajectory, options } = calls;
  const { answer, line, sampled } = call;
  const left = divergenceText(trajectory, number);
  const edited = editText(trajectory, number);
  const said = answer === null ? sampled.text : saidIn(messageOf(answer));
  const asked = line.news.at(-1);
  const below = [
    ...(asked === undefined ? [] : [preview(`${asked.role}: ${asked.content}`)]),
    preview(`assistant: ${said}`),
  ];
  const notes = [
    ...(left === null ? [] : [`diverged ${left}`]),
    ...(edited === null ? [] : [`edited ${edited}`]),
    ...seams(sampled.segments),
  ];
  const state = sampled.token_ids.length;
  const indent = '  '.repeat(depth);
  const indented = (text: string): string => `${indent}   ${text}`;
  return block(answer === null ? `open.call.${number}.${state}` : `call.${number}`, {
    title: `${indent}call ${number}: ${factsOf(call, { calls, number }).join(', ')}`,
    text: below.map(indented).join('\n'),
    notes: notes.map(indented),
    style: options.style,
  });
}

function factsOf(
  call: JournalCall,
  { calls: { trajectory, paths }, number }: { calls: Calls; number: number },
): string[] {
  const { answer, line, sampled } = call;
  // Until then any answer may still be read, or be gone on from.
  const isOver = trajectory.end !== null || trajectory.observations.length > 0;
  const malformed = answer?.malformed ?? 0;
  return [
    ...beginningOf(call),
    ...sampledFacts(sampled),
    answer === null ? 'not whole' : (sampled.generation?.finish_reason ?? ''),
    ...(malformed > 0 ? [formatCount(malformed, 'malformed tool call')] : []),
    ...(line.life > 1 ? [`life ${line.life}`] : []),
    ...(isOver && number === paths.main ? ['end of the main sequence'] : []),
    ...(isOver ? trainsText(trajectory, paths.status[number] ?? null) : []),
  ];
}

/** Whether it trains. Nothing of a failed rollout does, which its head says. */
function trainsText({ end }: Trajectory, why: string | null): string[] {
  if (end !== null && !VALID_STOP_REASONS.has(end.stop_reason)) return [];
  return [why === null ? 'trains' : `does not train: ${why}`];
}

function beginningOf({ line, from }: JournalCall): string[] {
  if (line.cause === undefined) return line.parent === null ? [] : [`continues ${line.parent}`];
  const shared = from === null ? '' : ` at token ${from.ids} of call ${from.call}`;
  return [`${line.cause}${shared}`];
}

function preview(text: string): string {
  const line = plainLine(text.slice(0, 20 * PREVIEW))
    .replace(/\s+/g, ' ')
    .trim();
  const letters = Array.from(line);
  return letters.length <= PREVIEW ? line : `${letters.slice(0, PREVIEW).join('')}...`;
}

const exitText = ({ code, signal }: { code: number | null; signal: string | null }): string =>
  signal === null ? `code ${code ?? 'unknown'}` : signal;

/** What it printed at its end, and returned besides its worth. */
const leftText = ({ tail, submission, said }: LineOf<'exit'>): string =>
  [
    ...(tail.trim() === '' ? [] : [tail.trimEnd()]),
    ...(submission === null ? [] : [`submission: ${preview(submission)}`]),
    ...(said?.metadata ? [`metadata: ${preview(JSON.stringify(said.metadata))}`] : []),
  ].join('\n');

function verdictBlock({ observations: [verdict] }: Trajectory, { style }: PageOptions): Block[] {
  if (verdict === undefined) return [];
  const { reward, rewards, message } = verdict;
  const facts = [
    `reward ${reward}`,
    ...Object.entries(rewards).map(([name, one]) => `${name} ${one}`),
  ];
  const text = typeof message?.content === 'string' ? message.content : '';
  return [block('verdict', { title: `verdict: ${facts.join(', ')}`, text, style })];
}

/** One call whole: what it was asked with, and its answer. */
export function callBlocks(
  trajectory: Trajectory,
  { number, ...options }: PageOptions & { number: number },
): Block[] {
  const { calls, materials } = trajectory;
  const call = calls[number];
  if (call === undefined) return [];
  const { style, tokens } = options;
  const { line, answer, sampled } = call;
  const system = line.system === null ? undefined : materials.get(line.system)?.system;
  const asked: CallMessage[] = [
    ...(system === undefined ? [] : [{ role: 'system', content: system }]),
    ...messagesBeyond(calls, { number, first: 0 }),
  ];
  const head = callBlock(call, { calls: callsOf(trajectory, options), number, depth: 0 });
  const said = answer === null ? { role: 'assistant', content: sampled.text } : messageOf(answer);
  const notes = [
    `prompt ${formatCount(call.prompt_length, 'token')}`,
    ...sampledFacts(sampled),
    ...(tokens ? tokenTable(sampled) : []),
  ];
  return [
    head,
    ...asked.map((message, at) => messageBlock(message, { key: `asked.${at}`, style })),
    messageBlock(said, { key: 'said', style, notes }),
  ];
}

function messageBlock(
  message: CallMessage,
  { key, style, notes = [] }: { key: string; style: PageOptions['style']; notes?: string[] },
): Block {
  const { role, content, reasoning, tool_calls = [], tool_call_id } = message;
  const text = [
    ...(reasoning === undefined ? [] : [`(thinks) ${reasoning}`]),
    ...(content === '' ? [] : [content]),
    ...tool_calls.map(({ id, name, arguments: given }) => `${id}: ${name}(${given})`),
  ].join('\n');
  const title = tool_call_id === undefined ? role : `${role}, of ${tool_call_id}`;
  return block(key, { title, text, notes, style });
}
