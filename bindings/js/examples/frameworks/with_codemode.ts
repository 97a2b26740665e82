import { createCodeTool } from '@cloudflare/codemode/ai';
import { type ToolSet, generateText, isStepCount, type LanguageModel } from 'ai';
import { GloveboxExecutor } from 'glovebox-sandbox/codemode';

export async function ask(question: string, model: LanguageModel, tools: ToolSet): Promise<string> {
  await using executor = new GloveboxExecutor();
  const codemode = createCodeTool({ tools, executor });
  const { text } = await generateText({ model, tools: { codemode }, prompt: question, stopWhen: isStepCount(10) });
  return text;
}
