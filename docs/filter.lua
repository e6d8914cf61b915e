-- What Quarto adds to Pandoc's Markdown and the notebooks use: callouts, numbered
-- equations, figures and tables, and references to them. Wide things get a box of
-- their own to scroll in.

local words = { eq = "Equation", fig = "Figure", tbl = "Table" }
local count = { eq = 0, fig = 0, tbl = 0 }
local label = {}

local function number(id)
  local kind = id:match("^(%a+)%-")
  if not words[kind] then return nil end
  count[kind] = count[kind] + 1
  label[id] = { words[kind], count[kind] }
  return count[kind]
end

local function name(id)
  return label[id][1] .. "\u{a0}" .. label[id][2]
end

local function boxed_math(math)
  if math.mathtype == "DisplayMath" then
    return pandoc.Span({ math }, { class = "display-math" })
  elseif #math.text > 32 then
    return pandoc.Span({ math }, { class = "long-math" })
  end
  return math
end

-- $$ ... $$ {#eq-name} is, to Pandoc, a formula, a space and a word.
local function equations(inlines)
  local out = pandoc.Inlines({})
  local i = 1
  while i <= #inlines do
    local this, space, word = inlines[i], inlines[i + 1], inlines[i + 2]
    local id = this.t == "Math" and word and word.t == "Str" and word.text:match("^{#(eq%-[%w-]+)}$")
    if id and (space.t == "Space" or space.t == "SoftBreak") then
      local tag = pandoc.Span("(" .. number(id) .. ")", { class = "eq-number" })
      out:insert(pandoc.Span({ boxed_math(this), tag }, { id = id, class = "equation" }))
      i = i + 3
    elseif this.t == "Math" and space and space.t == "Str" and space.text:match("^[%p’”]") then
      -- no line break between a formula and the comma after it
      out:insert(pandoc.Span({ boxed_math(this), space }, { class = "tied" }))
      i = i + 2
    else
      out:insert(this.t == "Math" and boxed_math(this) or this)
      i = i + 1
    end
  end
  return out
end

local function captioned(block)
  if number(block.identifier) then
    local first = block.caption.long[1]
    local lead = pandoc.Inlines({ pandoc.Strong(name(block.identifier) .. ":"), pandoc.Space() })
    if first then
      first.content = lead .. first.content
    else
      block.caption.long = { pandoc.Plain(lead) }
    end
  end
  return block
end

local function callout(div)
  local kind = div.classes:find_if(function(c) return c:match("^callout%-%a+") end)
  if not kind then return nil end
  local title = pandoc.Inlines(div.attributes.title or kind:sub(9, 9):upper() .. kind:sub(10))
  local body = div.content
  if body[1] and body[1].t == "Header" then title = body:remove(1).content end
  if div.attributes.collapse == "true" then
    local open = pandoc.RawBlock("html", '<details class="callout ' .. kind .. '"><summary class="callout-title">')
    body = pandoc.Blocks({ open, pandoc.Plain(title), pandoc.RawBlock("html", "</summary>") }) .. body
    return body .. { pandoc.RawBlock("html", "</details>") }
  end
  body:insert(1, pandoc.Div(pandoc.Plain(title), { class = "callout-title" }))
  return pandoc.Div(body, { id = div.identifier, class = "callout " .. kind, role = "note" })
end

-- The letters that a page defines for itself stand in columns.
local function letters(blocks)
  for i = 2, #blocks do
    local before = blocks[i - 1]
    if blocks[i].t == "BulletList" and before.t == "Para" and before.content[1].t == "Strong"
        and pandoc.utils.stringify(before.content[1]):match("^Letters of this ") then
      blocks[i] = pandoc.Div({ blocks[i] }, { class = "letters" })
    end
  end
  return blocks
end

-- Code that the reader unfolds, marked as Quarto marks it: a line says what it does.
local function folded(code)
  if code.attributes["code-fold"] ~= "true" then return nil end
  local said = pandoc.utils.blocks_to_inlines(pandoc.read(code.attributes["code-summary"], "markdown").blocks)
  code.attributes = {}
  local open = pandoc.RawBlock("html", '<details class="folded"><summary>')
  return { open, pandoc.Plain(said), pandoc.RawBlock("html", "</summary>"), code, pandoc.RawBlock("html", "</details>") }
end

local function reference(cite)
  local id = cite.citations[1].id
  if not label[id] then error("reference to @" .. id .. ", which this page does not define") end
  local text = cite.citations[1].mode == "SuppressAuthor" and tostring(label[id][2]) or name(id)
  return pandoc.Link(text, "#" .. id)
end

-- Columns as wide as what is in them, not as the dashes in the source.
local function scroll_box(table)
  table.colspecs = table.colspecs:map(function(spec) return { spec[1], nil } end)
  return pandoc.Div({ table }, { class = "table-box", tabindex = "0" })
end

return {
  { Inlines = equations, Blocks = letters, Div = callout, CodeBlock = folded },
  { Figure = captioned, Table = captioned },
  { Cite = reference, Table = scroll_box },
}
