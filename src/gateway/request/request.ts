import type { AskedSampling, CallMessage } from '../../model/calls/message.js';
import type { Tools } from '../../model/journal/agent-lines.js';

/** A request of an agent, whatever dialect it came in. */
export interface AgentRequest {
  /** The message with which the conversation begins; null: none. */
  system: string | null;
  /** Behind it; at least one, the last of them no answer. */
  messages: CallMessage[];
  /** Functions as the agent describes them; null: none, or the answer shall call none. */
  tools: Tools | null;
  /** Requests that differ in it are different. */
  tool_choice: ToolChoice | null;
  asked: AskedSampling;
  stream: boolean;
}

export const TOOL_CHOICES = ['auto', 'none', 'required'] as const;
export type ToolChoice = (typeof TOOL_CHOICES)[number];

/** What each argument of the chat template means. */
export type TemplateKwargs = Readonly<Record<string, string>>;

export const MOST_MESSAGES = 10_000;
export const MOST_TOOLS = 512;
export const MOST_STOPS = 16;
export const MOST_STOP_CHARACTERS = 256;
export const MOST_LOGPROBS = 20;

export interface RequestLimits {
  /** Whether an answer may have to match a schema. */
  structured: 'allow' | 'refuse';
  /** By what role the template renders messages of another. */
  role_map: Readonly<Record<string, string>>;
  /** The batch's arguments of the template. */
  kwargs: TemplateKwargs;
}
