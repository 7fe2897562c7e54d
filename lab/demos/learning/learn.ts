import path from 'node:path';
import { describeError } from '../../../src/platform/errors.js';
import { INTERRUPTED } from '../../../src/platform/process/interrupts.js';
import { plain } from '../../../src/platform/plain.js';
import { inSession, throwIfPartFailed } from '../../../dev/session.js';
import type { StackPlace } from '../../../dev/stack.js';
import type { LearningOptions, Session } from './follow.js';
import { ensureLearning } from './example.js';
import { follow } from './follow.js';
import { idOf, ofModel, runExample, startLearningStack, trainerPart } from './processes.js';
import { startsOver, startsOverFolder } from './starts-over.js';
import { lastHeldOut, lastedFor, readMetrics } from './board.js';

const LONGEST_MS = 45 * 60_000;
/** Time limit of the loop that starts over, relative to this run: it may never end by itself. */
const PATIENCE = 1.5;

/** In turn; each is a part of the stack. */
const VICTIMS = ['engine', 'worker', 'trainer', 'Temporal server'].map((name) => ({
  what: name,
  part: name,
}));

/**
 * A policy that learns through the whole system on one machine: engine, Temporal server, worker and trainer, killed and
 * restarted if the options say so. Shows a live board, checks what was sampled and delivered, and draws a plot.
 * Resolves to the exit code: 0 if nothing is wrong and the held-out reward is high enough, 130 if it was interrupted.
 */
export async function learn(options: LearningOptions): Promise<number> {
  const say = (line: string): void => {
    console.log(plain(line));
  };
  await ensureLearning({ env: process.env, say });
  return await inSession(options.folder, async ({ place, screen, interrupts }) => {
    const session: Session = { options, screen, interrupts };
    await play(session, place);
    await place.supervisor.stop();
    const isCompared = options.compare && options.kills !== null && !interrupts.signal.aborted;
    if (isCompared) {
      const took_ms = 1000 * lastedFor(await readMetrics(options.folder));
      await startsOver(session, Math.min(PATIENCE * took_ms, LONGEST_MS));
    }
    return interrupts.signal.aborted ? interrupted(session) : await conclude(session);
  });
}

/** Plays until the trainer has ended. */
async function play(session: Session, place: StackPlace): Promise<void> {
  const { options, screen } = session;
  const { folder, supervisor } = place;
  const life = options.kills === null ? 'calm' : 'killed';
  const stack = await startLearningStack(place, { ...options, life });
  screen.say(`${idOf(folder)}, in ${path.relative('', folder)}; Web UI ${stack.uiUrl}`);
  if (options.vllm !== null)
    screen.say(`vLLM takes minutes to start: ${path.relative('', stack.logs)}/engine.log`);
  const done = new AbortController();
  const finished = (): void => {
    done.abort();
  };
  await supervisor.run(trainerPart({ folder, stack, finished }, options));
  const phase = options.kills === null ? 'learning' : 'learning, under kills';
  const signal = done.signal;
  await follow(session, {
    folder,
    supervisor,
    done: signal,
    victims: VICTIMS,
    phase,
    longest_ms: LONGEST_MS,
  });
}

/** Throws if a part died again and again. */
function interrupted({ options, screen, interrupts }: Session): number {
  throwIfPartFailed(interrupts);
  const folder = path.relative('', options.folder);
  screen.say(`Nothing of it is lost: temporal-rollout learning --folder ${folder} continues it.`);
  return INTERRUPTED;
}

/** The plot, the check of rows against the engine's log, and the reward that was reached. */
async function conclude({ options, screen }: Session): Promise<number> {
  const { folder, target, shuffle_advantages, kills, compare } = options;
  const plot = path.join(folder, 'plot.png');
  const over = compare && kills !== null ? ['--starts-over', startsOverFolder(folder)] : [];
  await runExample({ args: ['plot.py', '--run', folder, ...over, '--out', plot] });
  const reward = lastHeldOut(await readMetrics(folder)) ?? 0;
  const learned = shuffle_advantages || reward >= target;
  const check = ofModel(['check.py', '--folder', folder], options);
  const report = await runExample(check).catch((error: unknown) => {
    screen.say(describeError(error));
    return null;
  });
  if (report !== null) screen.say(report.trim());
  const expected = learned ? '' : `, expected at least ${target}`;
  screen.say(`held-out reward ${reward.toFixed(3)}${expected}; plot ${path.relative('', plot)}`);
  return learned && report !== null ? 0 : 1;
}
