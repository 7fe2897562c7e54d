/** Agents that are killed anywhere and begin again: what was sampled is given again, and sampled once. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { AgentRequest } from '../../src/gateway/request/request.js';
import { hashedRequest } from '../../src/gateway/request/meaning.js';
import type { CallMessage } from '../../src/model/calls/message.js';
import { isKnown } from '../../src/model/journal/calls.js';
import { sequencesOf } from '../../src/model/results/sequences.js';
import type { World } from './agent-world.js';
import { createWorld } from './agent-world.js';

/** What an agent does with an answer: goes on, asks for several at once or in turn, repeats a compaction, gives up once. */
const STEPS = ['go', 'at once', 'in turn', 'compact', 'give up'] as const;
type Step = (typeof STEPS)[number];

const user = (content: string): CallMessage => ({ role: 'user', content });
const request = (messages: CallMessage[]): AgentRequest => ({
  system: 'be brief',
  messages,
  tools: null,
  tool_choice: null,
  asked: {},
  stream: false,
});

/** Deterministic, given its answers and what it prints. Each step of the generator may be its last. */
async function* agent(
  world: World,
  { steps, prints, asks }: { steps: readonly Step[]; prints: string; asks: Map<string, number> },
): AsyncGenerator<undefined, void> {
  let said = 0;
  const ask = async (asked: AgentRequest, isAgain = false): Promise<number> => {
    const { key } = hashedRequest(asked);
    if (!isAgain) asks.set(key, (asks.get(key) ?? 0) + 1);
    // Every sample is another text.
    return await world.ask(asked, { text: `answer ${world.truths.length}`, finish: 'stop' });
  };
  const answerOf = (turn: number): string => world.fold().calls[turn]?.answer?.content ?? '';
  let messages = [user('task')];
  async function* candidates(count: number, atOnce: boolean): AsyncGenerator<undefined, string> {
    const turns: number[] = [];
    for (let k = 0; k < count; k++) {
      turns.push(await ask(request(messages)));
      yield;
      if (!atOnce) yield* arrival(turns[k]!);
    }
    if (atOnce) for (const turn of turns) yield* arrival(turn);
    return turns.map(answerOf).sort().at(-1) ?? '';
  }
  function* arrival(turn: number): Generator<undefined, void, undefined> {
    for (let part = 0; part < 3; part++) {
      world.sample(turn, part === 2 ? Infinity : 3);
      yield;
    }
    world.close(turn, 'whole');
    yield;
  }
  for (const step of steps) {
    if (step === 'give up') {
      const turn = await ask(request(messages));
      world.sample(turn, 2);
      yield;
      world.close(turn, 'cut');
      yield;
      const again = await ask(request(messages), true);
      yield* arrival(again);
      messages = [...messages, { role: 'assistant', content: answerOf(again) }];
    } else {
      const count = step === 'go' ? 1 : 2;
      const best = yield* candidates(count, step === 'at once');
      if (step === 'compact') messages = [user(`go on from ${best}`)];
      else messages = [...messages, { role: 'assistant', content: best }];
    }
    said += 1;
    messages = [...messages, user(`seen ${said}${said === 2 ? prints : ''}`)];
  }
}

const lives = fc.record({
  steps: fc.array(fc.constantFrom(...STEPS), { minLength: 2, maxLength: 6, size: 'max' }),
  /** After how many of its steps each life is killed; the one behind them ends by itself. */
  kills: fc.array(fc.nat({ max: 30 }), { maxLength: 4, size: 'max' }),
});

async function play(
  { steps, kills }: { steps: Step[]; kills: number[] },
  printsOf: (life: number) => string,
): Promise<{ world: World; asks: Map<string, number> }> {
  const world = createWorld({ history: 'append' });
  let asks = new Map<string, number>();
  for (const kill of [...kills, Infinity]) {
    asks = new Map();
    const running = agent(world, { steps, prints: printsOf(world.life()), asks });
    let isDone = false;
    for (let k = 0; k < kill && !isDone; k++) isDone = (await running.next()).done === true;
    if (kill !== Infinity) world.startAgain('replay');
  }
  world.exit();
  return { world, asks };
}

/** Each sampled token stands in one sequence. */
function checkTokens({ fold, truths }: World): void {
  const { sequences, all_tokens } = sequencesOf(fold()) ?? assert.fail('no sequences');
  const calls = sequences.flatMap((sequence) => sequence.calls).sort((a, b) => a - b);
  const sampled = truths.flatMap((truth, call) => (truth.sampled.length > 0 ? [call] : []));
  assert.deepEqual(
    calls.filter((call) => sampled.includes(call)),
    sampled,
  );
  assert.equal(
    all_tokens.sampled,
    truths.reduce((sum, truth) => sum + truth.sampled.length, 0),
  );
}

describe('agents that are killed anywhere and begin again', () => {
  test('get what was sampled for what they ask, in as many samples as one life asks for', async () => {
    await fc.assert(
      fc.asyncProperty(lives, async (given) => {
        const { world, asks } = await play(given, () => '');
        const { calls, lives: all } = world.fold();
        const sampled = new Map<string, number>();
        for (const { line } of calls) sampled.set(line.key, (sampled.get(line.key) ?? 0) + 1);
        assert.deepEqual(sampled, asks);
        assert.ok(
          calls.every((call) => isKnown(call, all.length)),
          'the last life left something',
        );
        assert.ok(!calls.some(({ line }) => line.cause === 'diverged'));
        assert.ok(world.truths.every(({ left }) => left.length === 0));
        checkTokens(world);
      }),
      { numRuns: 150 },
    );
  });

  test('and print something else each time are sampled again from there, once named, and what they left does not train', async () => {
    let diverged = 0;
    await fc.assert(
      fc.asyncProperty(lives, async (given) => {
        const { world } = await play(given, (life) => ` at ${life}`);
        const { calls, lives: all } = world.fold();
        const named = calls.flatMap(({ line }) => (line.cause === 'diverged' ? [line] : []));
        diverged += named.length;
        assert.equal(new Set(named.map(({ life }) => life)).size, named.length);
        for (const { diverged: from } of named) assert.ok(from?.message !== undefined);
        const before = new Set<number>();
        for (const [call, { line }] of calls.entries())
          if (isKnown(calls[call]!, all.length))
            for (let at = line.parent; at !== null; at = calls[at]?.line.parent ?? null)
              before.add(at);
        const { sequences } = sequencesOf(world.fold()) ?? assert.fail('no sequences');
        for (const { calls: of, train } of sequences)
          if (train)
            assert.ok(of.every((call) => isKnown(calls[call]!, all.length) || before.has(call)));
        checkTokens(world);
      }),
      { numRuns: 150 },
    );
    assert.ok(diverged > 20, `${diverged} divergences`);
  });
});
