import type { ProgramRules } from '../../environments/environment.js';
import type { PlayedAgent } from '../../gateway/agent-session.js';
import { engineOf } from '../../gateway/play/engine.js';
import type { RolloutSettings } from '../../model/journal.js';
import { seedOfCall } from '../../model/turn/seeds.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { knownEos } from '../../sampling/seam.js';
import type { Dependencies } from '../dependencies.js';
import type { Playing } from '../playing.js';
import { poolOf, sharerOf } from '../playing.js';
import { recordFault } from '../record-fault.js';
import { poolFor, waitsOf } from '../turn/generate-turn.js';

interface ProgramMeans {
  rules: ProgramRules;
  settings: RolloutSettings;
  dependencies: Dependencies;
}

export function playedAgent(
  playing: Playing,
  { rules, settings, dependencies }: ProgramMeans,
): PlayedAgent {
  const { journal, ref, signal } = playing;
  const { trajectory } = journal;
  const inForce = (): RolloutSettings => trajectory.settings_in_force ?? settings;
  const session_id = rolloutId(ref);
  const sharer = sharerOf(playing);
  const pool = poolFor(settings, dependencies);
  const { model, generation } = settings;
  const { chat_template_kwargs } = generation;
  return {
    rollout_id: session_id,
    journal: {
      ...journal,
      append: async (entry) => {
        await journal.append(entry);
        // An earlier attempt may have said what it waits for, and this one may play for hours.
        if (entry.kind === 'answer' && !playing.isUnserved()) void playing.reportWaiting(null);
      },
    },
    settings: callSettings({ rules, settings, dependencies }, inForce),
    generation: inForce,
    pool,
    // Its program needs its slot as long as it runs, so that no wait gives the slot to others.
    waits: waitsOf({ ...playing, idles: () => undefined, hasGivenWay: false }, settings),
    sharer,
    seed: ({ turn, inherited }) => seedOfCall(settings, { ...ref, turn, inherited }),
    eos_ids: () => knownEos(trajectory),
    ...engineOf(pool, { model, chat_template_kwargs, session_id, sharer, signal }),
    failed: (fault, turn) => recordFault(fault, { journal, turn }),
    signal,
  };
}

/** All lives of a rollout are read alike, whatever its environment's settings have become. */
function callSettings(
  { rules, settings, dependencies }: ProgramMeans,
  inForce: () => RolloutSettings,
): PlayedAgent['settings'] {
  const { structured, limits, program } = rules;
  const { tool_parser, reasoning_parser, history } = program;
  const { role_map = {} } = poolOf(settings, dependencies);
  return {
    tool_parser,
    reasoning_parser,
    history,
    structured,
    role_map,
    limits: {
      ...limits,
      get calls() {
        return Math.min(limits.calls ?? Infinity, inForce().max_rollout_turns);
      },
    },
  };
}
