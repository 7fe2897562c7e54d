import fc from 'fast-check';
import type { JournalLine } from '../../src/model/journal.js';
import type { CallRules } from '../../src/model/results/call-paths.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import type { Row } from '../../src/model/results/row.js';
import { toRow } from '../../src/model/results/row.js';
import { toSummary } from '../../src/model/results/summary.js';
import { Sample } from '../../src/model/sample.js';
import { author, foldOf, SETTINGS } from '../fakes/journal-lines.js';
import { moves, play } from './agent-moves.js';
import { createWorld } from './agent-world.js';

/** Rows of what agents do at random. */

export const sample = Sample.parse({
  message_log: [{ role: 'user', content: 'task' }],
  task_name: 'task',
});

/** A journal with calls, cut anywhere, whose program has come to its end or not. */
export const agentJournal = fc.record({
  moves,
  history: fc.constantFrom('append' as const, 'template' as const),
  /** Share of the lines that are there. */
  until: fc.constantFrom(1, 1, 0.9, 0.6, 0.3, 0.05),
  ends: fc.boolean(),
  reward: fc.constantFrom(0, 0.5, 1),
  labels: fc.array(fc.constantFrom('5', '6', '7', null), { minLength: 1, maxLength: 5 }),
  rules: fc.record({
    train_resampled: fc.constantFrom('winner', 'all', 'none'),
    train_separate: fc.constantFrom('all', 'with_tools', 'none'),
  }),
});
type AgentJournal = typeof agentJournal extends fc.Arbitrary<infer T> ? T : never;

export async function linesOf(given: AgentJournal): Promise<JournalLine[]> {
  const world = createWorld({ history: given.history });
  for (const move of given.moves) await play(world, { ...move, asked: () => undefined });
  const cut = world.lines.slice(0, Math.max(2, Math.ceil(given.until * world.lines.length)));
  const lines = cut.map((line, at) => labelled(line, { at, given }));
  const { lives, writer } = foldOf(lines);
  if (!given.ends || lives.length === 0 || writer === null) return lines;
  const by = author(writer);
  const { reward } = given;
  return [
    ...lines,
    by.exit({ life: lives.length }),
    by.observation({ reward, terminated: true, message: null, token_ids: [] }),
    by.end(),
  ];
}

function labelled(
  line: JournalLine,
  {
    at,
    given: { labels, rules },
  }: { at: number; given: { labels: (string | null)[]; rules: CallRules } },
): JournalLine {
  if (line.kind === 'chunk') return { ...line, policy_version: labels[at % labels.length] ?? null };
  if (line.kind !== 'start') return line;
  return { ...line, settings: { ...SETTINGS, ...rules, max_version_span: 1 } };
}

export interface AgentRollout {
  row: Row;
  trajectory: Trajectory;
  summary: ReturnType<typeof toSummary>;
}

export function rolloutOf(lines: readonly JournalLine[], repeat = 0): AgentRollout {
  const trajectory = foldOf(lines);
  const outcome = outcomeOf(trajectory, { stop_reason: 'cancelled' });
  const ref = { batch_id: 'batch', row: 0, repeat };
  const row = toRow({ sample, ref, semantics: 'standard', trajectory, outcome });
  return { row, trajectory, summary: toSummary(row, trajectory) };
}
