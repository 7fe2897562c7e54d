import { writeJson } from '../platform/json/kept.js';
import type { Render, TurnSeam } from '../model/turn/chat-turn.js';
import { droppedRole, findSeam, renderAfterAnswer, ROLE_MAP } from '../model/turn/chat-turn.js';
import type { GenerationService } from './generation-service.js';
import { rejected } from './wire/wire-faults.js';

/** One rendering for each message. What precedes it is cached by model, template settings and role. */
export function createTurnRenderer({
  replica,
  renderChat,
}: Pick<GenerationService, 'replica' | 'renderChat'>): GenerationService['renderTurn'] {
  const seams = new Map<string, TurnSeam>();
  return async ({ message, ...chat }, signal) => {
    const render: Render = (messages, options) =>
      renderChat({ ...chat, ...options, messages }, signal);
    const key = writeJson([chat.model, chat.chat_template_kwargs, message.role]);
    const fresh = async (): Promise<TurnSeam> => {
      const seam = await findSeam(render, message);
      seams.set(key, seam);
      return seam;
    };
    const known = seams.get(key);
    const seam = known ?? (await fresh());
    if (seam.is_dropped) throw rejected(replica, `${droppedRole(message.role)}: ${ROLE_MAP}`);
    const ids = await renderAfterAnswer(render, { seam, message });
    if (ids !== null) return ids;
    // A restarted replica may have another template.
    const again =
      known === undefined
        ? null
        : await renderAfterAnswer(render, { seam: await fresh(), message });
    if (again !== null) return again;
    throw rejected(
      replica,
      `the chat template renders earlier messages differently before a message of role ${message.role}`,
    );
  };
}
