from treering.parts.projects.spaces import delete as delete
from treering.parts.projects.spaces import get_hipporag_kwargs as get_hipporag_kwargs
from treering.parts.projects.spaces import index as index
from treering.parts.projects.spaces import rag_qa as rag_qa
from treering.parts.projects.spaces import retrieve as retrieve
