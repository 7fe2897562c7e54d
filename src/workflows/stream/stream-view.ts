import { setCurrentDetails, setHandler, upsertMemo } from '@temporalio/workflow';
import type { RolloutsSeen, Waiting } from '../../activities/contract.js';
import type { StreamProgress } from '../../activities/contract/stream.js';
import { whatIsOvertaken, whyText } from '../../model/workflow-safe/stream/next-step.js';
import { versionOfNextStep } from '../../model/workflow-safe/stream/pacing.js';
import type { Stream } from './stream-state.js';
import { streamProgressQuery } from '../steering/messages.js';
import { shownPriority } from '../../model/workflow-safe/priority.js';
import { waitingText } from '../../model/workflow-safe/waiting.js';
import { plainLine, quoted } from '../../platform/plain.js';
import { handleStop } from '../steering/stop.js';
import { forDisplay, onWaiting, pageLine, waitingLine } from '../views/waiting.js';

/** What a stream shows: query `progress`, current details. It also handles `stop`. */
export function showStream() {
  let phase: StreamProgress['phase'] = 'planning';
  let stream: Stream | null = null;
  let waiting: Waiting | null = null;
  let seen: Waiting | null = null;
  const progress = (): StreamProgress => {
    const now = stream === null ? NOTHING : progressOf(stream);
    return { ...now, phase, waiting: waiting ?? now.waiting ?? seen };
  };
  const show = (): void => {
    setCurrentDetails([detailsOf(progress()), ...pageLine(stream?.plan.page)].join('\n'));
  };
  setHandler(streamProgressQuery, progress);
  onWaiting((now) => {
    waiting = now;
    show();
  });
  const enter = (now: typeof phase): void => {
    phase = now;
    show();
  };
  return {
    opened: (now: Stream): void => {
      stream = now;
      const { memo } = now.plan;
      if (memo !== undefined) upsertMemo(memo);
      waiting = null;
      enter('running');
    },
    show,
    /** What its rollouts wait for, while a trainer waits for a step. */
    seen: ({ waiting: now }: RolloutsSeen): void => {
      seen = forDisplay(now);
      show();
    },
    /** What the next step waits for, with what all of it waits for: for a trainer. */
    why: (of: Stream) => whyWithWaiting(of, seen),
    enter,
    ...handleStop(),
  };
}

const NOTHING: StreamProgress = {
  phase: 'planning',
  step: 0,
  kept_from: 0,
  version: null,
  served: null,
  in_flight: 0,
  banked: 0,
  admitted: 0,
  out: { filtered: 0, dropped: 0, failed: 0, delivered: 0 },
  lag: null,
  max_in_flight: 0,
  why: 'the stream is being planned',
  waiting: null,
};

function progressOf(stream: Stream): Omit<StreamProgress, 'phase'> {
  const { is_versioned, kept_from } = stream.now();
  const pacing = stream.pacing();
  const settings = stream.settings();
  const { steps_dir, priority } = stream.plan;
  const { groups, next_step, served, last_version, admitted, out, failures } = pacing;
  const in_flight = groups.filter(({ state }) => state === 'running').length;
  const oldest = groups.reduce((least, { born }) => Math.min(least, born ?? -Infinity), Infinity);
  const isKnown = is_versioned && Number.isFinite(oldest);
  return {
    step: next_step,
    kept_from,
    version: is_versioned ? last_version : null,
    served: is_versioned ? served : null,
    in_flight,
    banked: groups.length - in_flight,
    admitted,
    out,
    ...(failures !== undefined && { failures }),
    lag: isKnown ? versionOfNextStep(pacing, settings) - oldest : null,
    max_in_flight: settings.max_in_flight,
    ...shownPriority(priority),
    why: whyOf(stream),
    waiting: waitingOf(stream),
    ...(steps_dir !== undefined && { steps_dir }),
  };
}

function whyOf(stream: Stream): string {
  const next = stream.next();
  const { is_versioned, pacing } = stream.now();
  const why = next.ready ? `step ${pacing.next_step} is ready` : whyText(next.why);
  const overtaken = is_versioned ? whatIsOvertaken(pacing, stream.settings()) : null;
  return overtaken === null ? why : `${why}; ${overtaken}`;
}

/** Bounded by its activity; faults of engines are plain text. */
function waitingOf(stream: Stream): Waiting | null {
  const waiting = stream.served().waiting ?? null;
  return waiting && { ...waiting, message: plainLine(waiting.message) };
}

/** The same with what all of it waits for, for a trainer. `seen`: what its rollouts wait for. */
export function whyWithWaiting(stream: Stream, seen: Waiting | null = null): string {
  const waiting = waitingOf(stream) ?? seen;
  return waiting === null ? whyOf(stream) : `${whyOf(stream)}; waits for ${waitingText(waiting)}`;
}

function detailsOf(progress: StreamProgress): string {
  const { phase, step, served, in_flight, banked, lag, why, waiting } = progress;
  const line =
    `**${phase === 'done' ? 'stopped' : phase}** · step ${step} · version ${served ?? 'unknown'} · ` +
    `${in_flight} groups in flight, ${banked} banked · lag ${lag ?? 'unknown'} · ${quoted(why)}`;
  return waiting === null ? line : `${line}\n\n${waitingLine(waiting)}`;
}
