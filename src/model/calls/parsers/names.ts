/** How answers can be read; `none`: what they say is text. */
export const TOOL_PARSERS = ['hermes', 'none'] as const;
export const REASONING_PARSERS = ['qwen3', 'deepseek_r1', 'none'] as const;
