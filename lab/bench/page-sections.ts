/** What `npm run bench:page` measures. `npm run bench -- --write` and `-- --size --write` write the others. */

interface Section {
  command: readonly string[];
  /** About, on two idle cores. */
  minutes: number;
}

const tsx = (...args: string[]): string[] => ['node', '--import', 'tsx', ...args];

export const SECTIONS: Readonly<Record<string, Section>> = {
  'stores-tables': { command: tsx('lab/bench/stores/main.ts', 'tables'), minutes: 4 },
  'stores-pace': { command: tsx('lab/bench/stores/main.ts', 'pace'), minutes: 5 },
  'stores-turns': { command: tsx('lab/bench/stores/main.ts', 'turns'), minutes: 7 },
  deaths: { command: tsx('lab/bench/deaths.ts', '2'), minutes: 4 },
  calls: { command: tsx('lab/bench/agents/main.ts', '1', '64'), minutes: 4 },
  tokens: { command: tsx('lab/bench/tokens/main.ts', '--only', '1', '--rounds', '1'), minutes: 3 },
  many: { command: tsx('lab/bench/many/main.ts', '--rollouts', '256'), minutes: 4 },
  'many-beside': {
    command: tsx(
      'lab/bench/many/fast-beside-slow.ts',
      '--slow',
      '360',
      '--fast',
      '16',
      '--turns',
      '6',
      '--rounds',
      '1',
    ),
    minutes: 2,
  },
  histories: { command: tsx('lab/bench/history-costs.ts'), minutes: 1 },
  'many-process': {
    command: ['node', '--expose-gc', '--import', 'tsx', 'lab/bench/many/one-process.ts'],
    minutes: 2,
  },
  sandbox: { command: tsx('lab/bench/sandbox.ts'), minutes: 1 },
  grader: { command: tsx('lab/bench/grader.ts'), minutes: 2 },
  retriever: {
    command: ['node', '--expose-gc', '--import', 'tsx', 'lab/bench/retriever.ts'],
    minutes: 1,
  },
  updates: { command: tsx('lab/bench/updates.ts', '2'), minutes: 40 },
  'weight-transfer': { command: tsx('lab/bench/weight-transfer.ts', '2', '10'), minutes: 5 },
  'gym-aggregate': { command: tsx('lab/bench/gym-aggregate.ts'), minutes: 4 },
  'gym-collect': { command: tsx('lab/bench/gym-collect.ts'), minutes: 10 },
  show: { command: tsx('lab/bench/show.ts'), minutes: 2 },
  'streams-bias': { command: tsx('lab/bench/streams/main.ts', 'bias'), minutes: 30 },
  'streams-pacing': { command: tsx('lab/bench/streams/main.ts', 'pacing', '90'), minutes: 6 },
  'streams-many': { command: tsx('lab/bench/streams/main.ts', 'many'), minutes: 37 },
  'streams-kept': { command: tsx('lab/bench/streams/main.ts', 'kept'), minutes: 10 },
  'streams-share': { command: tsx('lab/bench/streams/main.ts', 'share'), minutes: 4 },
  'streams-cost': { command: tsx('lab/bench/streams/main.ts', 'cost', '2'), minutes: 5 },
};
